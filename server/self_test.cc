#include "server/self_test.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "kernels/plan.h"
#include "kernels/reference.h"

namespace attnd::server {
namespace {

// Odd, to reach the tails of every loop.
constexpr int64_t kRows = 67;

template <typename T>
absl::Span<const char> Bytes(const std::vector<T>& values) {
  return absl::Span<const char>(reinterpret_cast<const char*>(values.data()),
                                values.size() * sizeof(T));
}

// Inputs of one problem; the same on every start.
struct Inputs {
  std::vector<float> query, key, value;
  std::vector<int64_t> ticks;
};

Inputs MakeInputs(const EncoderSizes& sizes) {
  std::mt19937_64 random(20240601);
  std::normal_distribution<float> normal;
  std::exponential_distribution<double> gap(1.0);
  Inputs in;
  in.query.resize(kRows * sizes.query_heads * sizes.head_dim);
  in.key.resize(kRows * sizes.kv_heads * sizes.head_dim);
  in.value.resize(in.key.size());
  for (auto* values : {&in.query, &in.key, &in.value}) {
    for (float& x : *values) x = normal(random);
  }
  // Gaps of about one unit, in ticks of a thousandth of it.
  int64_t t = 1'700'000'000'000'000;
  for (int64_t i = 0; i < kRows; ++i) {
    in.ticks.push_back(t += static_cast<int64_t>(1000 * gap(random)));
  }
  return in;
}

absl::StatusOr<AttentionProblem> MakeProblem(const NamedEncoding& encoding,
                                             const EncoderSizes& sizes,
                                             const Inputs& in) {
  const auto tensor = [&](const std::vector<float>& values, int heads) {
    return TensorRef::Make(
        Bytes(values), DType::kF32, Layout::kBHLD,
        {.batch = 1, .heads = heads, .rows = kRows, .cols = sizes.head_dim});
  };
  AttentionProblem problem;
  const auto query = tensor(in.query, sizes.query_heads);
  const auto key = tensor(in.key, sizes.kv_heads);
  const auto value = tensor(in.value, sizes.kv_heads);
  const auto times = TimeAxis::Make(TimeAxis::Kind::kTicks, Bytes(in.ticks), 1,
                                    kRows, /*per_item=*/false);
  for (const absl::Status& status :
       {query.status(), key.status(), value.status(), times.status()}) {
    if (!status.ok()) return status;
  }
  problem.query = *query;
  problem.key = *key;
  problem.value = *value;
  problem.query_time = problem.key_time = *times;
  problem.mask.causal = true;
  problem.scale = 1 / std::sqrt(static_cast<float>(sizes.head_dim));
  if (encoding.spec.uses_time()) {
    const auto encoder =
        Encoder::Compile(encoding.spec, sizes, {.tick_ns = 1, .unit_ns = 1000});
    if (!encoder.ok()) return encoder.status();
    problem.encoder = *encoder;
  }
  return problem;
}

absl::Status TestOne(const NamedEncoding& encoding, Workspace& workspace) {
  const EncoderSizes sizes = NominalSizes(encoding.spec);
  const Inputs in = MakeInputs(sizes);
  const auto problem = MakeProblem(encoding, sizes, in);
  if (!problem.ok()) return problem.status();
  const auto plan = Plan::Make(*problem);
  if (!plan.ok()) return plan.status();
  std::vector<float> output(plan->output_elements());
  OutputBuffers out;
  out.output = absl::MakeSpan(output);
  absl::Status status = RunAll(*plan, workspace, out);
  if (!status.ok()) return status;
  const auto expected = ReferenceAttention(*problem);
  if (!expected.ok()) return expected.status();
  for (size_t i = 0; i < output.size(); ++i) {
    const size_t row = i / sizes.head_dim;
    const double bound = kOutputError *
                         std::max(1.0, expected->logit_size[row] / 8) *
                         expected->value_size[row];
    const double error = std::abs(output[i] - expected->output[i]);
    if (!(error <= bound)) {
      return absl::InternalError(absl::StrCat(
          "element ", i, " is ", output[i], ", the reference says ",
          expected->output[i], "; error ", error, ", allowed ", bound));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status SelfTest(const EncodingCatalog& encodings, Workspace& workspace) {
  for (const NamedEncoding& encoding : encodings.encodings()) {
    if (absl::Status status = TestOne(encoding, workspace); !status.ok()) {
      return absl::InternalError(absl::StrCat(
          "self-test of encoding \"", encoding.name, "\": ", status.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace attnd::server
