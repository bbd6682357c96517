#include "server/cost_model.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace attnd::server {
namespace {

using Clock = std::chrono::steady_clock;

// Long enough for several repetitions of the largest problem below, short
// enough that four of them do not delay a start noticeably.
constexpr std::chrono::milliseconds kProbeTime(12);

// One head of plain attention.
struct Probe {
  int64_t queries, keys, dim;
};

struct Measurement {
  Work work;
  double seconds = 0;
};

// The fastest of the repetitions: disturbances only ever add.
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
  const absl::StatusOr<Plan> plan = Plan::Make(problem);
  if (!plan.ok()) return plan.status();

  std::vector<float> output(plan->output_elements());
  OutputBuffers out;
  out.output = absl::MakeSpan(output);
  const int64_t bytes = static_cast<int64_t>(
      sizeof(float) * (queries.size() + 2 * keys.size() + output.size()));
  Measurement result = {.work = WorkOf(*plan, bytes),
                        .seconds = std::numeric_limits<double>::infinity()};
  const Clock::time_point end = Clock::now() + kProbeTime;
  // The first run builds primitives and is not counted.
  for (int run = 0; run < 3 || Clock::now() < end; ++run) {
    const Clock::time_point start = Clock::now();
    if (absl::Status status = RunAll(*plan, workspace, out); !status.ok()) {
      return status;
    }
    const std::chrono::duration<double> took = Clock::now() - start;
    if (run > 0) result.seconds = std::min(result.seconds, took.count());
  }
  return result;
}

}  // namespace

Work WorkOf(const Plan& plan, int64_t bytes) {
  const AttentionProblem& problem = plan.problem();
  const double flops_per_pair =
      2.0 * static_cast<double>(problem.query.shape().cols +
                                problem.value.shape().cols);
  const double flops = static_cast<double>(plan.flops());
  // Native bf16 products run at about twice the rate.
  return {.flops = plan.bf16() ? flops / 2 : flops,
          .pairs = flops / flops_per_pair,
          .bytes = static_cast<double>(bytes),
          .units = static_cast<double>(plan.units().size())};
}

Work WorkOf(const LinearPlan& plan, int64_t bytes) {
  // A row costs beside its products about what the softmax of four chunks
  // does: encoding, decays, its share of the sums.
  constexpr double kPairsPerRow = 4 * 64;
  const Shape4& q = plan.problem().attention.query.shape();
  const Shape4& k = plan.problem().attention.key.shape();
  const double rows = static_cast<double>(q.batch) *
                      static_cast<double>(q.heads * q.rows + k.heads * k.rows);
  return {.flops = static_cast<double>(plan.flops()),
          .pairs = kPairsPerRow * rows,
          .bytes = static_cast<double>(bytes),
          .units = static_cast<double>(plan.heads() * plan.segments())};
}

absl::StatusOr<CostModel> CostModel::Calibrate(Workspace& workspace) {
  // Two head dimensions tell products from softmax, a tiny problem the cost of
  // a unit, one query over many keys that of bytes.
  const Probe probes[] = {
      {512, 512, 64}, {512, 512, 16}, {4, 4, 16}, {1, 8192, 64}};
  Measurement m[4];
  for (int i = 0; i < 4; ++i) {
    const auto measured = Measure(probes[i], workspace);
    if (!measured.ok()) return measured.status();
    m[i] = *measured;
  }
  Rates rates;
  rates.seconds_per_unit = m[2].seconds / std::max(1.0, m[2].work.units);
  const auto rest = [&](const Measurement& x) {
    const double left = x.seconds - x.work.units * rates.seconds_per_unit -
                        x.work.flops * rates.seconds_per_flop -
                        x.work.pairs * rates.seconds_per_pair;
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
  return CostModel(rates);
}

double CostModel::Predict(const Work& work) const {
  return work.flops * rates_.seconds_per_flop +
         work.pairs * rates_.seconds_per_pair +
         work.bytes * rates_.seconds_per_byte +
         work.units * rates_.seconds_per_unit;
}

double CostModel::flops_per_second() const {
  // 4 D flops a pair at D = Dv = 64.
  return 256 / (256 * rates_.seconds_per_flop + rates_.seconds_per_pair);
}

}  // namespace attnd::server
