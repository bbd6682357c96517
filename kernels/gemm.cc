#include "kernels/gemm.h"

#include <omp.h>

#include <dnnl.hpp>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/tensor.h"

namespace attnd {
namespace {

using Tag = dnnl::memory::format_tag;
constexpr auto kF32 = dnnl::memory::data_type::f32;
constexpr auto kBF16 = dnnl::memory::data_type::bf16;

enum class Product { kQueryKey, kWeightValue, kWeightValueAccumulate };

// product, bf16, rows, keys, dim
using Key = std::tuple<Product, bool, int, int, int64_t>;

Product WeightValueProduct(bool accumulate) {
  return accumulate ? Product::kWeightValueAccumulate : Product::kWeightValue;
}

// A built product with its memory objects; data handles change per call.
struct Primitive {
  dnnl::matmul matmul;
  dnnl::memory a, b, c, scratch;
};

bool IsBrgemm(const dnnl::matmul::primitive_desc& desc) {
  return absl::StartsWith(desc.impl_info_str(), "brg");
}

// oneDNN also runs bf16 where the processor does not, at less than half the
// rate of f32.
bool IsNativeBf16(const dnnl::matmul::primitive_desc& desc) {
  return absl::StartsWith(desc.impl_info_str(), "brg:avx512_core_bf16");
}

}  // namespace

int PaddedRows(int64_t rows) {
  for (int step : kRowSteps) {
    if (rows <= step) return step;
  }
  return kMaxTileRows;
}

int TileKeys(int64_t keys) {
  return keys >= 256 ? 256 : keys >= 128 ? 128 : 64;
}

struct TileGemm::Impl {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::map<Key, Primitive> primitives;
  AlignedBuffer scratch;
  // False where oneDNN has no kernel for packed weights (before AVX-512): then
  // each block of 64 keys is one product with plain weights.
  bool packed = true;

  // Products of one QueryKey call: 1, or one per block without packing.
  int Pieces(int keys) const { return packed ? 1 : keys / kKeyBlock; }

  dnnl::matmul::primitive_desc Describe(const Key& key) {
    const auto [product, bf16, rows, keys, dim] = key;
    const bool qk = product == Product::kQueryKey;
    const int64_t depth = qk ? dim : keys;
    const int64_t width = !qk ? dim : bf16 ? keys : keys / Pieces(keys);
    const auto type = bf16 ? kBF16 : kF32;
    const Tag pack = bf16           ? Tag::BA16a64b2a
                     : qk && packed ? Tag::BA16a64b
                                    : Tag::ab;
    const dnnl::memory::desc a({rows, depth}, type, Tag::ab);
    const dnnl::memory::desc b({depth, width}, type, pack);
    const dnnl::memory::desc c({rows, width}, kF32,
                               dnnl::memory::dims{qk ? keys : dim, 1});
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (product == Product::kWeightValueAccumulate) {
      dnnl::post_ops post;
      post.append_sum(1.0f);
      attr.set_post_ops(post);
    }
    return {dnnl::matmul::desc(a, b, c), attr, engine};
  }

  Primitive& Get(const Key& key) {
    auto it = primitives.find(key);
    if (it != primitives.end()) return it->second;
    if (static_cast<int64_t>(primitives.size()) >= kMaxPrimitives) {
      primitives.clear();
    }
    const auto desc = Describe(key);
    Primitive primitive;
    primitive.matmul = dnnl::matmul(desc);
    primitive.a = dnnl::memory(desc.src_desc(), engine, nullptr);
    primitive.b = dnnl::memory(desc.weights_desc(), engine, nullptr);
    primitive.c = dnnl::memory(desc.dst_desc(), engine, nullptr);
    primitive.scratch = dnnl::memory(desc.scratchpad_desc(), engine, nullptr);
    scratch.Reserve(
        static_cast<int64_t>(desc.scratchpad_desc().get_size() / 4 + 16));
    return primitives.emplace(key, std::move(primitive)).first->second;
  }

  template <class T>
  void Run(Primitive& primitive, const T* a, const T* b, float* c) {
    primitive.a.set_data_handle(const_cast<T*>(a));
    primitive.b.set_data_handle(const_cast<T*>(b));
    primitive.c.set_data_handle(c);
    primitive.scratch.set_data_handle(scratch.data());
    // The C call: building the C++ argument map costs more than a small
    // product.
    const dnnl_exec_arg_t args[] = {
        {DNNL_ARG_SRC, primitive.a.get()},
        {DNNL_ARG_WEIGHTS, primitive.b.get()},
        {DNNL_ARG_DST, primitive.c.get()},
        {DNNL_ARG_SCRATCHPAD, primitive.scratch.get()}};
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(primitive.matmul.get(), stream.get(), 4, args),
        "matmul execution failed");
  }

  // The product that the key names: one, or one for each block of keys where
  // they are not packed for the library.
  template <class T>
  absl::Status Multiply(const Key& key, const T* a, const T* b, float* c) {
    const auto [product, bf16, rows, keys, dim] = key;
    const int pieces =
        product == Product::kQueryKey && !bf16 ? Pieces(keys) : 1;
    const int width = keys / pieces;
    try {
      Primitive& primitive = Get(key);
      for (int i = 0; i < pieces; ++i) {
        Run(primitive, a, b + i * dim * width, c + i * width);
      }
      return absl::OkStatus();
    } catch (const dnnl::error& error) {
      return absl::InternalError(absl::StrCat("oneDNN: ", error.what()));
    }
  }
};

TileGemm::TileGemm(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TileGemm::~TileGemm() = default;

void TileGemm::PinThread() { omp_set_num_threads(1); }

absl::StatusOr<std::unique_ptr<TileGemm>> TileGemm::Create() {
  PinThread();
  try {
    auto impl = std::make_unique<Impl>();
    try {
      impl->packed = IsBrgemm(impl->Describe(
          {Product::kQueryKey, false, kMaxTileRows, kMaxTileKeys, 64}));
    } catch (const dnnl::error&) {
      impl->packed = false;
    }
    return std::unique_ptr<TileGemm>(new TileGemm(std::move(impl)));
  } catch (const dnnl::error& error) {
    return absl::InternalError(absl::StrCat("oneDNN: ", error.what()));
  }
}

absl::Status TileGemm::QueryKey(int rows, int keys, int64_t dim, const float* q,
                                const float* key_pack, float* s) {
  return impl_->Multiply({Product::kQueryKey, false, rows, keys, dim}, q,
                         key_pack, s);
}

absl::Status TileGemm::WeightValue(int rows, int keys, int64_t dim,
                                   const float* p, const float* v,
                                   bool accumulate, float* o) {
  return impl_->Multiply(
      {WeightValueProduct(accumulate), false, rows, keys, dim}, p, v, o);
}

absl::Status TileGemm::QueryKey(int rows, int keys, int64_t dim,
                                const uint16_t* q, const uint16_t* key_pack,
                                float* s) {
  return impl_->Multiply({Product::kQueryKey, true, rows, keys, dim}, q,
                         key_pack, s);
}

absl::Status TileGemm::WeightValue(int rows, int keys, int64_t dim,
                                   const uint16_t* p, const uint16_t* v,
                                   bool accumulate, float* o) {
  return impl_->Multiply(
      {WeightValueProduct(accumulate), true, rows, keys, dim}, p, v, o);
}

absl::Status TileGemm::Prepare(int64_t dim, int64_t value_dim) {
  try {
    for (int rows = kKeyBlock; rows <= kMaxTileRows; rows *= 2) {
      for (int keys = kKeyBlock; keys <= kMaxTileKeys; keys *= 2) {
        impl_->Get({Product::kQueryKey, false, rows, keys, dim});
        for (const bool accumulate : {false, true}) {
          impl_->Get(
              {WeightValueProduct(accumulate), false, rows, keys, value_dim});
        }
      }
    }
    return absl::OkStatus();
  } catch (const dnnl::error& error) {
    return absl::InternalError(absl::StrCat("oneDNN: ", error.what()));
  }
}

bool TileGemm::NativeBf16() {
  static const bool native = [] {
    try {
      Impl impl;
      return IsNativeBf16(impl.Describe(
          {Product::kQueryKey, true, kMaxTileRows, kMaxTileKeys, 64}));
    } catch (const dnnl::error&) {
      return false;
    }
  }();
  return native;
}

int64_t TileGemm::primitives() const {
  return static_cast<int64_t>(impl_->primitives.size());
}

int64_t TileGemm::scratch_bytes() const {
  return impl_->scratch.capacity() * static_cast<int64_t>(sizeof(float));
}

}  // namespace attnd
