#include "server/self_test.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "kernels/plan.h"
#include "server/reference_check.h"

namespace attnd::server {
namespace {

// Odd, to reach the tails of every loop. Fewer where the reference multiplies
// matrices for every pair.
constexpr int64_t kRows = 67, kFreeRows = 19;

template <typename T>
absl::Span<const char> Bytes(const std::vector<T>& values) {
  return absl::Span<const char>(reinterpret_cast<const char*>(values.data()),
                                values.size() * sizeof(T));
}

// Inputs of one problem; the same on every start.
struct Inputs {
  int64_t rows = kRows;
  std::vector<float> query, key, value, clock, gates;
  std::vector<int64_t> ticks;
};

// Times of this century, or near 0; `rows` of them.
Inputs MakeInputs(const EncoderSizes& sizes, int coordinates,
                  int clock_channels, int64_t rows, bool near_zero) {
  std::mt19937_64 random(20240601);
  std::normal_distribution<float> normal;
  std::exponential_distribution<double> gap(1.0);
  Inputs in;
  in.rows = rows;
  in.query.resize(in.rows * sizes.query_heads * sizes.head_dim);
  in.key.resize(in.rows * sizes.kv_heads * sizes.head_dim);
  in.value.resize(in.key.size());
  for (auto* values : {&in.query, &in.key, &in.value}) {
    for (float& x : *values) x = normal(random);
  }
  // Gaps of about one unit, in ticks of a thousandth of it, none of them empty:
  // a query sees the keys of its own time, whose learned clocks would be ahead.
  std::vector<int64_t> t(coordinates, near_zero ? 0 : 1'700'000'000'000'000);
  for (int64_t i = 0; i < in.rows; ++i) {
    for (int64_t& at : t) {
      in.ticks.push_back(at += 1 + static_cast<int64_t>(1000 * gap(random)));
    }
  }
  for (int h = 0; h < sizes.kv_heads; ++h) {
    std::vector<double> units(clock_channels, 0.0);
    for (int64_t i = 0; i < in.rows; ++i) {
      for (double& at : units) {
        in.clock.push_back(static_cast<float>(at));
        at += gap(random);
      }
    }
  }
  in.gates.resize(in.rows * sizes.query_heads);
  for (float& gate : in.gates) gate = static_cast<float>(-0.1 * gap(random));
  return in;
}

// Null for NoPE. Learned tables are left out: they need not be defined at the
// times of the self-test.
absl::StatusOr<std::shared_ptr<const Encoder>> MakeEncoder(
    const NamedEncoding& encoding, const EncoderSizes& sizes) {
  if (!encoding.uses_time()) return nullptr;
  absl::StatusOr<EncodingSpec> spec = SpecFor(encoding, sizes);
  if (!spec.ok()) return spec.status();
  std::erase_if(spec->absolutes, [](const AbsolutePart& part) {
    return std::holds_alternative<LearnedTablePart>(part.kind);
  });
  return Encoder::Compile(*spec, sizes, {.tick_ns = 1, .unit_ns = 1000});
}

// Whether the reference exponentiates matrices for every pair of rows and head
// of keys, which takes it seconds where there are eight such heads.
bool TurnsByMatrices(const Encoder* encoder) {
  if (encoder == nullptr) return false;
  const Generator& generator = encoder->head(0).generator();
  return !generator.small_blocks().empty() || !generator.chains().empty() ||
         !generator.free_rotations().empty() || !generator.basis().empty();
}

// An encoder and the sizes it is for.
struct Sized {
  EncoderSizes sizes;
  std::shared_ptr<const Encoder> encoder;
};

// Two heads are enough of what is costly, unless its heads differ.
absl::StatusOr<Sized> MakeSized(const NamedEncoding& encoding) {
  const EncoderSizes nominal = NominalSizes(encoding.spec);
  auto encoder = MakeEncoder(encoding, nominal);
  if (!encoder.ok()) return encoder.status();
  if (TurnsByMatrices(encoder->get()) && (*encoder)->spec().per_head.empty()) {
    EncoderSizes few = nominal;
    few.query_heads = few.kv_heads = 2;
    auto smaller = MakeEncoder(encoding, few);
    if (smaller.ok()) return Sized{few, *std::move(smaller)};
  }
  return Sized{nominal, *std::move(encoder)};
}

absl::StatusOr<AttentionProblem> MakeProblem(
    std::shared_ptr<const Encoder> encoder, const EncoderSizes& sizes,
    const Inputs& in) {
  AttentionProblem problem;
  absl::Status status;
  const auto set = [&](auto made, auto& member) {
    if (status.ok()) status = made.status();
    if (status.ok()) member = *std::move(made);
  };
  const auto tensor = [&](const std::vector<float>& values, int heads,
                          int64_t cols) {
    return TensorRef::Make(
        Bytes(values), DType::kF32, Layout::kBHLD,
        {.batch = 1, .heads = heads, .rows = in.rows, .cols = cols});
  };
  set(tensor(in.query, sizes.query_heads, sizes.head_dim), problem.query);
  set(tensor(in.key, sizes.kv_heads, sizes.head_dim), problem.key);
  set(tensor(in.value, sizes.kv_heads, sizes.head_dim), problem.value);
  set(TimeAxis::Make(TimeAxis::Kind::kTicks, Bytes(in.ticks), 1, in.rows,
                     /*per_item=*/false,
                     static_cast<int>(in.ticks.size() / in.rows)),
      problem.query_time);
  problem.key_time = problem.query_time;
  if (!in.clock.empty()) {
    const auto channels =
        static_cast<int64_t>(in.clock.size()) / (in.rows * sizes.kv_heads);
    set(tensor(in.clock, sizes.kv_heads, channels), problem.query_clock);
    problem.key_clock = problem.query_clock;
  }
  if (encoder != nullptr && encoder->gate_weights().any()) {
    set(tensor(in.gates, sizes.query_heads, 1), problem.gates);
  }
  problem.mask.causal = true;
  problem.scale = 1 / std::sqrt(static_cast<float>(sizes.head_dim));
  problem.encoder = std::move(encoder);
  if (!status.ok()) return status;
  return problem;
}

absl::Status TestOne(const NamedEncoding& encoding, Workspace& workspace) {
  auto sized = MakeSized(encoding);
  if (!sized.ok()) return sized.status();
  const EncoderSizes sizes = sized->sizes;
  const Encoder* compiled = sized->encoder.get();
  const bool free =
      compiled != nullptr && !compiled->head(0).generator().relative();
  const Inputs in =
      MakeInputs(sizes, compiled == nullptr ? 1 : compiled->coordinates(),
                 compiled == nullptr ? 0 : compiled->clock_channels(),
                 free ? kFreeRows : kRows,
                 free || (compiled != nullptr && compiled->hf_fp32_angles()));
  const auto problem = MakeProblem(sized->encoder, sizes, in);
  if (!problem.ok()) return problem.status();
  const auto plan = Plan::Make(*problem);
  if (!plan.ok()) return plan.status();
  std::vector<float> output(plan->output_elements());
  OutputBuffers out;
  out.output = absl::MakeSpan(output);
  absl::Status status = RunAll(*plan, workspace, out);
  if (!status.ok()) return status;
  return CheckAgainstReference(*problem, output, kOutputError);
}

}  // namespace

absl::Status SelfTest(const EncodingCatalog& encodings, Workspace& workspace,
                      const EncodingCatalog* passed) {
  for (const NamedEncoding* encoding : encodings.NotIn(passed)) {
    if (absl::Status status = TestOne(*encoding, workspace); !status.ok()) {
      return absl::InternalError(absl::StrCat("self-test of encoding \"",
                                              encoding->name,
                                              "\": ", status.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace attnd::server
