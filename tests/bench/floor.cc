#include "tests/bench/floor.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <dnnl.hpp>
#include <limits>
#include <unordered_map>

#include "absl/strings/str_cat.h"

namespace attnd::bench {
namespace {

using Tag = dnnl::memory::format_tag;
using Arguments = std::unordered_map<int, dnnl::memory>;
constexpr auto kF32 = dnnl::memory::data_type::f32;

double Now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

struct Floor::Products {
  int64_t rows, keys;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::matmul query_key, weight_value;
  Arguments query_key_args, weight_value_args;
  std::vector<float> logits, output, scratch;
  // One per head and key tile when K was packed before; else empty.
  std::vector<dnnl::memory> packed;
};

Floor::Floor(const Tensors& tensors) : tensors_(tensors) {
  omp_set_num_threads(1);
  const ProblemSize& s = tensors.size;
  double best = std::numeric_limits<double>::infinity();
  for (int64_t rows : {64, 128, 256, 512}) {
    for (int64_t keys : {128, 256, 512, 1024}) {
      // A tile longer than the sequence is the sequence.
      if (rows > std::max<int64_t>(s.length, 64)) continue;
      if (keys > std::max<int64_t>(s.length, 128)) continue;
      for (bool packed : {false, true}) {
        std::unique_ptr<Products> products =
            Make(std::min(rows, s.length), std::min(keys, s.length), packed);
        const int64_t heads = std::min<int64_t>(s.batch * s.heads, 8);
        Run(*products, heads);
        double seconds = std::numeric_limits<double>::infinity();
        for (int round = 0; round < 3; ++round) {
          const double start = Now();
          Run(*products, heads);
          seconds = std::min(seconds, Now() - start);
        }
        if (seconds >= best) continue;
        best = seconds;
        best_ = std::move(products);
        shape_ = absl::StrCat(best_->rows, "x", best_->keys,
                              packed ? " packed" : " in place");
      }
    }
  }
}

Floor::~Floor() = default;

std::unique_ptr<Floor::Products> Floor::Make(int64_t rows, int64_t keys,
                                             bool packed) {
  const ProblemSize& s = tensors_.size;
  auto p = std::make_unique<Products>();
  p->rows = rows;
  p->keys = keys;
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto describe = [&](int64_t m, int64_t k, int64_t n, Tag weights) {
    return dnnl::matmul::primitive_desc(
        {dnnl::memory::desc({m, k}, kF32, Tag::ab),
         dnnl::memory::desc({k, n}, kF32, weights),
         dnnl::memory::desc({m, n}, kF32, Tag::ab)},
        attr, p->engine);
  };
  const auto qk = describe(rows, s.dim, keys, packed ? Tag::any : Tag::ba);
  const auto pv = describe(rows, keys, s.dim, Tag::ab);
  p->query_key = dnnl::matmul(qk);
  p->weight_value = dnnl::matmul(pv);
  p->logits.resize(rows * keys);
  p->output.resize(rows * s.dim);
  p->scratch.resize(16 + std::max(qk.scratchpad_desc().get_size(),
                                  pv.scratchpad_desc().get_size()) /
                             sizeof(float));
  const auto bind = [&](const dnnl::memory::desc& desc, const float* data) {
    return dnnl::memory(desc, p->engine, const_cast<float*>(data));
  };
  p->query_key_args = {
      {DNNL_ARG_SRC, bind(qk.src_desc(), nullptr)},
      {DNNL_ARG_WEIGHTS, bind(qk.weights_desc(), nullptr)},
      {DNNL_ARG_DST, bind(qk.dst_desc(), p->logits.data())},
      {DNNL_ARG_SCRATCHPAD, bind(qk.scratchpad_desc(), p->scratch.data())}};
  p->weight_value_args = {
      {DNNL_ARG_SRC, bind(pv.src_desc(), p->logits.data())},
      {DNNL_ARG_WEIGHTS, bind(pv.weights_desc(), nullptr)},
      {DNNL_ARG_DST, bind(pv.dst_desc(), p->output.data())},
      {DNNL_ARG_SCRATCHPAD, bind(pv.scratchpad_desc(), p->scratch.data())}};
  if (!packed) return p;
  const dnnl::memory::desc plain({s.dim, keys}, kF32, Tag::ba);
  for (int64_t head = 0; head < s.batch * s.heads; ++head) {
    for (int64_t j = 0; j + keys <= s.length; j += keys) {
      dnnl::memory from =
          bind(plain, tensors_.key.data() + (head * s.length + j) * s.dim);
      dnnl::memory to(qk.weights_desc(), p->engine);
      dnnl::reorder(from, to).execute(p->stream, from, to);
      p->packed.push_back(to);
    }
  }
  return p;
}

void Floor::Run(Products& p, int64_t heads) {
  const ProblemSize& s = tensors_.size;
  const int64_t tiles = s.length / p.keys;
  const auto set = [](Arguments& args, int which, const float* data) {
    args.at(which).set_data_handle(const_cast<float*>(data));
  };
  for (int64_t head = 0; head < heads; ++head) {
    const int64_t base = head * s.length * s.dim;
    for (int64_t i = 0; i + p.rows <= s.length; i += p.rows) {
      set(p.query_key_args, DNNL_ARG_SRC,
          tensors_.query.data() + base + i * s.dim);
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t j = base + t * p.keys * s.dim;
        if (p.packed.empty()) {
          set(p.query_key_args, DNNL_ARG_WEIGHTS, tensors_.key.data() + j);
        } else {
          p.query_key_args.at(DNNL_ARG_WEIGHTS) = p.packed[head * tiles + t];
        }
        p.query_key.execute(p.stream, p.query_key_args);
        set(p.weight_value_args, DNNL_ARG_WEIGHTS, tensors_.value.data() + j);
        p.weight_value.execute(p.stream, p.weight_value_args);
      }
    }
  }
}

void Floor::Once() { Run(*best_, tensors_.size.batch * tensors_.size.heads); }

double Floor::flops() const {
  const ProblemSize& s = tensors_.size;
  return 4.0 * static_cast<double>(s.batch * s.heads) *
         static_cast<double>(s.length * s.length * s.dim);
}

}  // namespace attnd::bench
