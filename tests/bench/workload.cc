#include "tests/bench/workload.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "absl/strings/str_cat.h"

namespace attnd::bench {
namespace {

constexpr int64_t kSecond = 1000000000;

template <typename T>
absl::Span<const char> Bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()),
          values.size() * sizeof(T)};
}

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
  std::abort();
}

}  // namespace

std::string ProblemSize::Name() const {
  return absl::StrCat("B", batch, "_H", heads, "_L", length, "_D", dim);
}

Tensors::Tensors(const ProblemSize& size) : size(size) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  const int64_t count = size.batch * size.heads * size.length * size.dim;
  for (std::vector<float>* values : {&query, &key, &value}) {
    values->resize(count);
    for (float& x : *values) x = normal(random);
  }
  std::exponential_distribution<double> gap(1.0 / kSecond);
  for (int64_t b = 0; b < size.batch; ++b) {
    int64_t t = 1700000000 * kSecond;
    for (int64_t i = 0; i < size.length; ++i) {
      times.push_back(t += static_cast<int64_t>(gap(random)));
    }
  }
}

std::vector<Case> Cases() {
  EncodingSpec rope{
      .blocks = {RotaryBlock{}}, .biases = {}, .unit_ns = kSecond};
  EncodingSpec alibi{.blocks = {}, .biases = {AlibiTerm{}}, .unit_ns = kSecond};
  return {{.name = "plain", .causal = false, .encoding = {}},
          {.name = "causal", .causal = true, .encoding = {}},
          {.name = "rope", .causal = true, .encoding = rope},
          {.name = "alibi", .causal = true, .encoding = alibi}};
}

Run::Run(const Tensors& tensors, const Case& which) {
  const ProblemSize& s = tensors.size;
  const Shape4 shape{s.batch, s.heads, s.length, s.dim};
  AttentionProblem problem;
  problem.query = OrDie(
      TensorRef::Make(Bytes(tensors.query), DType::kF32, Layout::kBHLD, shape));
  problem.key = OrDie(
      TensorRef::Make(Bytes(tensors.key), DType::kF32, Layout::kBHLD, shape));
  problem.value = OrDie(
      TensorRef::Make(Bytes(tensors.value), DType::kF32, Layout::kBHLD, shape));
  problem.query_time = problem.key_time = OrDie(TimeAxis::Make(
      TimeAxis::Kind::kTicks, Bytes(tensors.times), s.batch, s.length, true));
  problem.mask.causal = which.causal;
  problem.scale = 1.0f / std::sqrt(static_cast<float>(s.dim));
  if (which.encoding.uses_time()) {
    const int heads = static_cast<int>(s.heads);
    problem.encoder = OrDie(
        Encoder::Compile(which.encoding,
                         {.head_dim = static_cast<int>(s.dim),
                          .query_heads = heads,
                          .kv_heads = heads},
                         {.tick_ns = 1, .unit_ns = which.encoding.unit_ns}));
  }
  plan_ = std::make_unique<Plan>(OrDie(Plan::Make(problem)));
  output_.resize(plan_->output_elements());
  double pairs = 0;
  for (int64_t b = 0; b < s.batch; ++b) {
    const ItemGeometry& item = plan_->item(b);
    for (int64_t i = 0; i < item.query_rows; ++i) {
      pairs += item.end[i] - item.begin[i];
    }
  }
  visible_flops_ = pairs * static_cast<double>(4 * s.heads * s.dim);
}

void Run::Once(Workspace& workspace) {
  const absl::Status status = RunAll(*plan_, workspace,
                                     {.output = absl::MakeSpan(output_),
                                      .lse = {},
                                      .scores = {},
                                      .weights = {}});
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::abort();
}

}  // namespace attnd::bench
