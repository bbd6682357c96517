#include "server/cost_model.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "kernels/encoding_spec.h"
#include "kernels/linear.h"

namespace attnd::server {
namespace {

using Clock = std::chrono::steady_clock;

// Long enough for several repetitions of the largest problem below, short
// enough that five of them do not delay a start noticeably.
constexpr std::chrono::milliseconds kProbeTime(12);

// One head of plain attention, or of the linear kind with decays.
struct Probe {
  int64_t queries, keys, dim;
  bool linear = false;
};

struct Measurement {
  Work work;
  double seconds = 0;
};

// The fastest of the repetitions: disturbances only ever add.
absl::StatusOr<Measurement> Fastest(const Work& work,
                                    absl::FunctionRef<absl::Status()> run) {
  Measurement result = {.work = work,
                        .seconds = std::numeric_limits<double>::infinity()};
  const Clock::time_point end = Clock::now() + kProbeTime;
  // The first run builds primitives and is not counted.
  for (int i = 0; i < 3 || Clock::now() < end; ++i) {
    const Clock::time_point start = Clock::now();
    if (absl::Status status = run(); !status.ok()) return status;
    const std::chrono::duration<double> took = Clock::now() - start;
    if (i > 0) result.seconds = std::min(result.seconds, took.count());
  }
  return result;
}

// The same tensors in the linear kind, with decays from slow to too fast for a
// chunk.
absl::StatusOr<Measurement> MeasureLinear(const AttentionProblem& attention,
                                          int64_t bytes, Workspace& workspace,
                                          std::vector<float>& output) {
  const int dim = static_cast<int>(attention.key.shape().cols);
  EncodingSpec spec;
  DecayBlock decay;
  for (int c = 0; c < dim; ++c) {
    decay.rates.push_back(1e-5 * std::pow(1e6, c / (dim - 1.0)));
  }
  spec.blocks = {std::move(decay)};
  auto encoder = Encoder::Compile(
      spec, {.head_dim = dim, .query_heads = 1, .kv_heads = 1, .length = 0},
      {});
  if (!encoder.ok()) return encoder.status();
  LinearProblem problem;
  problem.attention = attention;
  problem.attention.encoder = *std::move(encoder);
  const absl::StatusOr<LinearPlan> plan = LinearPlan::Make(problem);
  if (!plan.ok()) return plan.status();
  const absl::StatusOr<LinearWorkspace*> linear = workspace.Linear();
  if (!linear.ok()) return linear.status();
  const LinearBuffers out = {.output = absl::MakeSpan(output), .halves = {}};
  return Fastest(WorkOf(*plan, bytes),
                 [&] { return RunLinear(*plan, **linear, out); });
}

absl::StatusOr<Measurement> Measure(const Probe& probe, Workspace& workspace) {
  const auto tensor = [&](const std::vector<float>& values, int64_t rows) {
    return TensorRef::Make(
        absl::Span<const char>(reinterpret_cast<const char*>(values.data()),
                               values.size() * sizeof(float)),
        DType::kF32, Layout::kBHLD,
        {.batch = 1, .heads = 1, .rows = rows, .cols = probe.dim});
  };
  std::vector<float> queries(probe.queries * probe.dim);
  std::vector<float> keys(probe.keys * probe.dim);
  for (size_t i = 0; i < queries.size(); ++i) {
    queries[i] = static_cast<float>(i % 17) * 0.1f - 0.8f;
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    keys[i] = static_cast<float>(i % 13) * 0.1f - 0.6f;
  }
  AttentionProblem problem;
  const auto query = tensor(queries, probe.queries);
  const auto key = tensor(keys, probe.keys);
  if (!query.ok()) return query.status();
  if (!key.ok()) return key.status();
  problem.query = *query;
  problem.key = problem.value = *key;
  problem.scale = 1 / std::sqrt(static_cast<float>(probe.dim));
  std::vector<float> output(probe.queries * probe.dim);
  const int64_t bytes = static_cast<int64_t>(
      sizeof(float) * (queries.size() + 2 * keys.size() + output.size()));
  if (probe.linear) return MeasureLinear(problem, bytes, workspace, output);
  const absl::StatusOr<Plan> plan = Plan::Make(problem);
  if (!plan.ok()) return plan.status();
  OutputBuffers out;
  out.output = absl::MakeSpan(output);
  return Fastest(WorkOf(*plan, bytes),
                 [&] { return RunAll(*plan, workspace, out); });
}

// Held keys go one by one through the encoding, in double: measured at D 16 to
// 128 as multiples of an element of a plain event.
double ElementCost(const LinearProblem& problem) {
  if (problem.attention.encoder == nullptr) return 1;
  switch (problem.options.input_rule) {
    case LinearOptions::InputRule::kZeroOrderHold:
      return 40;
    case LinearOptions::InputRule::kTrapezoid:
      return 20;
    default:
      return 1;
  }
}

}  // namespace

Work WorkOf(const Plan& plan, int64_t bytes) {
  const AttentionProblem& problem = plan.problem();
  const double flops_per_pair =
      2.0 * static_cast<double>(problem.query.shape().cols +
                                problem.value.shape().cols);
  const double flops = static_cast<double>(plan.flops());
  // Native bf16 products run at about twice the rate.
  return {.flops = (plan.bf16() ? flops / 2 : flops) + plan.turn_flops(),
          .pairs = flops / flops_per_pair,
          .bytes = static_cast<double>(bytes),
          .units = static_cast<double>(plan.units().size())};
}

Work WorkOf(const LinearPlan& plan, int64_t bytes) {
  const AttentionProblem& problem = plan.problem().attention;
  const Shape4& q = problem.query.shape();
  const Shape4& k = problem.key.shape();
  const double passes = plan.problem().options.bidirectional ? 2 : 1;
  const double elements =
      passes * static_cast<double>(q.batch) *
      static_cast<double>(q.heads * q.rows + k.heads * k.rows) *
      static_cast<double>(kLinearRowElements + q.cols +
                          problem.value.shape().cols);
  return {.flops = static_cast<double>(plan.flops()),
          .bytes = static_cast<double>(bytes),
          .units = static_cast<double>(plan.heads() * plan.segments()),
          .elements = ElementCost(plan.problem()) * elements};
}

double MergedElements(const LinearPlan& plan, size_t states) {
  // Entered into the frame, advanced, left and added, all in double: 10 ns each
  // where an element of a row takes 1; a change of basis goes over all channels
  // both ways.
  constexpr double kPass = 10, kBasisPass = 1;
  const AttentionProblem& problem = plan.problem().attention;
  const LinearStateShape& shape = plan.state_shape();
  const double sums = static_cast<double>(shape.heads()) *
                      static_cast<double>(shape.dim * plan.width());
  const bool basis = problem.encoder != nullptr &&
                     !problem.encoder->head(0).query_basis().empty();
  return static_cast<double>(states) * sums *
         (kPass + (basis ? kBasisPass * static_cast<double>(shape.dim) : 0));
}

absl::StatusOr<CostModel> CostModel::Calibrate(Workspace& workspace) {
  // Two head dimensions tell products from softmax, a tiny problem the cost of
  // a unit, one query over many keys that of bytes, the linear kind what it
  // does beside its products.
  const Probe probes[] = {{512, 512, 64},
                          {512, 512, 16},
                          {4, 4, 16},
                          {1, 8192, 64},
                          {1024, 1024, 64, true}};
  Measurement m[5];
  for (int i = 0; i < 5; ++i) {
    const auto measured = Measure(probes[i], workspace);
    if (!measured.ok()) return measured.status();
    m[i] = *measured;
  }
  Rates rates;
  rates.seconds_per_unit = m[2].seconds / std::max(1.0, m[2].work.units);
  const auto rest = [&](const Measurement& x) {
    const double left = x.seconds - x.work.units * rates.seconds_per_unit -
                        x.work.flops * rates.seconds_per_flop -
                        x.work.pairs * rates.seconds_per_pair -
                        x.work.bytes * rates.seconds_per_byte;
    return std::max(left, 0.0);
  };
  // A slow moment during one probe must not make a rate zero or absurd: no
  // product runs at less than a quarter of what the first probe shows.
  const double whole = m[0].seconds / m[0].work.flops;
  rates.seconds_per_flop = std::clamp(
      (m[0].seconds - m[1].seconds) / (m[0].work.flops - m[1].work.flops),
      0.25 * whole, whole);
  rates.seconds_per_pair = rest(m[0]) / m[0].work.pairs;
  rates.seconds_per_byte = rest(m[3]) / m[3].work.bytes;
  // Decays never cost less than a tenth of the whole.
  rates.seconds_per_element =
      std::max(rest(m[4]), 0.1 * m[4].seconds) / m[4].work.elements;
  return CostModel(rates);
}

double CostModel::Predict(const Work& work) const {
  return work.flops * rates_.seconds_per_flop +
         work.pairs * rates_.seconds_per_pair +
         work.bytes * rates_.seconds_per_byte +
         work.units * rates_.seconds_per_unit +
         work.elements * rates_.seconds_per_element;
}

double CostModel::flops_per_second() const {
  // 4 D flops a pair at D = Dv = 64.
  return 256 / (256 * rates_.seconds_per_flop + rates_.seconds_per_pair);
}

}  // namespace attnd::server
