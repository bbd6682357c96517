#include "server/cost_calibration.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "kernels/encoding_spec.h"
#include "kernels/linear.h"

namespace attnd::server {
namespace {

using Clock = std::chrono::steady_clock;

// For each of the problems below: the slowest is then measured four times, and
// all of them do not delay a start noticeably.
constexpr std::chrono::milliseconds kProbeTime(4);
constexpr int kLeastRuns = 3, kMostRuns = 12;

enum class Kind { kPlain, kCausal, kRotary, kAlibi, kLinear };

// One head.
struct Probe {
  int64_t queries, keys, dim;
  Kind kind = Kind::kPlain;
};

// Each tells something apart: head dimensions the products from the softmax, a
// tiny problem what a request costs whatever it holds, few queries the blocks,
// queries that see next to nothing the rows and their bytes, and the last four
// what encodings and the linear kind add.
constexpr Probe kProbes[] = {{512, 512, 64},
                             {512, 512, 16},
                             {256, 256, 128},
                             {64, 64, 16},
                             {64, 2048, 16},
                             {1024, 64, 16, Kind::kCausal},
                             {1024, 64, 128, Kind::kCausal},
                             {512, 64, 128, Kind::kRotary},
                             {64, 1024, 32, Kind::kRotary},
                             {512, 512, 16, Kind::kAlibi},
                             {512, 512, 64, Kind::kLinear}};

// A machine that both were measured on (2-core AMD EPYC, Zen 3): what the
// problems above tell, and what requests cost a worker. A request comes from
// another thread and finds the worker asleep, which a problem that is measured
// again and again cannot imitate.
constexpr CostModel::Rates kAlone = {.seconds_per_request = 1.4e-7,
                                     .seconds_per_unit = 1.3e-7,
                                     .seconds_per_flop = 1.5e-11,
                                     .seconds_per_pair = 6.9e-10,
                                     .seconds_per_block = 3.3e-7,
                                     .seconds_per_row = 3.9e-8,
                                     .seconds_per_byte = 4.5e-11,
                                     .seconds_per_reply_byte = 6e-11,
                                     .seconds_per_encoded = 1.9e-9,
                                     .seconds_per_biased = 7.5e-10,
                                     .seconds_per_element = 2e-9};
constexpr CostModel::Rates kServed = {.seconds_per_request = 2.5e-5,
                                      .seconds_per_unit = 1e-6,
                                      .seconds_per_flop = 1.6e-11,
                                      .seconds_per_pair = 4.5e-10,
                                      .seconds_per_block = 5e-6,
                                      .seconds_per_row = 4.5e-8,
                                      .seconds_per_byte = 3.8e-10,
                                      .seconds_per_reply_byte = 6e-11,
                                      .seconds_per_encoded = 2.1e-9,
                                      .seconds_per_biased = 3.2e-10,
                                      .seconds_per_element = 2e-9};

// Takes the place of what others do between two requests on a worker.
class Caches {
 public:
  void Spoil() {
    for (float& x : memory_) x += 1;
  }

 private:
  // Twice a level-two cache.
  std::vector<float> memory_ = std::vector<float>((2 << 20) / sizeof(float));
};

// The fastest of the repetitions: disturbances only ever add.
absl::StatusOr<Measurement> Fastest(const Work& work, Caches& caches,
                                    absl::FunctionRef<absl::Status()> run) {
  Measurement result = {.work = work,
                        .seconds = std::numeric_limits<double>::infinity()};
  const Clock::time_point end = Clock::now() + kProbeTime;
  // The first run builds primitives and is not counted.
  for (int i = 0; i <= kLeastRuns || (i <= kMostRuns && Clock::now() < end);
       ++i) {
    caches.Spoil();
    const Clock::time_point start = Clock::now();
    if (absl::Status status = run(); !status.ok()) return status;
    const std::chrono::duration<double> took = Clock::now() - start;
    if (i > 0) result.seconds = std::min(result.seconds, took.count());
  }
  return result;
}

absl::StatusOr<std::shared_ptr<const Encoder>> MakeEncoder(const Probe& probe) {
  EncodingSpec spec;
  switch (probe.kind) {
    case Kind::kPlain:
    case Kind::kCausal:
      return nullptr;
    case Kind::kRotary:
      spec.blocks = {RotaryBlock{}};
      break;
    case Kind::kAlibi:
      spec.biases = {AlibiTerm{.slopes = {}, .two_sided = true}};
      break;
    case Kind::kLinear: {
      // Decays from slow to too fast for a chunk.
      DecayBlock decay;
      for (int64_t c = 0; c < probe.dim; ++c) {
        decay.rates.push_back(
            1e-5 * std::pow(1e6, static_cast<double>(c) /
                                     static_cast<double>(probe.dim - 1)));
      }
      spec.blocks = {std::move(decay)};
      break;
    }
  }
  return Encoder::Compile(spec,
                          {.head_dim = static_cast<int>(probe.dim),
                           .query_heads = 1,
                           .kv_heads = 1,
                           .length = 0},
                          {});
}

absl::StatusOr<Measurement> MeasureLinear(const AttentionProblem& attention,
                                          const MessageBytes& bytes,
                                          Workspace& workspace, Caches& caches,
                                          std::vector<float>& output) {
  LinearProblem problem;
  problem.attention = attention;
  const absl::StatusOr<LinearPlan> plan = LinearPlan::Make(problem);
  if (!plan.ok()) return plan.status();
  const absl::StatusOr<LinearWorkspace*> linear = workspace.Linear();
  if (!linear.ok()) return linear.status();
  const LinearBuffers out = {.output = absl::MakeSpan(output), .halves = {}};
  return Fastest(WorkOf(*plan, bytes), caches,
                 [&] { return RunLinear(*plan, **linear, out); });
}

absl::StatusOr<Measurement> Measure(const Probe& probe, Workspace& workspace,
                                    Caches& caches) {
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
  const std::vector<float> values = keys;
  AttentionProblem problem;
  const auto query = tensor(queries, probe.queries);
  const auto key = tensor(keys, probe.keys);
  const auto value = tensor(values, probe.keys);
  auto encoder = MakeEncoder(probe);
  for (const absl::Status& status :
       {query.status(), key.status(), value.status(), encoder.status()}) {
    if (!status.ok()) return status;
  }
  problem.query = *query;
  problem.key = *key;
  problem.value = *value;
  problem.encoder = *std::move(encoder);
  problem.mask.causal = probe.kind == Kind::kCausal;
  problem.scale = 1 / std::sqrt(static_cast<float>(probe.dim));
  std::vector<float> output(queries.size());
  const auto bytes = [](size_t floats) {
    return static_cast<int64_t>(floats * sizeof(float));
  };
  const MessageBytes messages = {
      .request = bytes(queries.size() + keys.size() + values.size()),
      .reply = bytes(output.size())};
  if (probe.kind == Kind::kLinear) {
    return MeasureLinear(problem, messages, workspace, caches, output);
  }
  OutputBuffers out;
  out.output = absl::MakeSpan(output);
  // Two plans in turns: a workspace keeps the keys of the last one.
  const absl::StatusOr<Plan> plans[] = {Plan::Make(problem),
                                        Plan::Make(problem)};
  for (const auto& plan : plans) {
    if (!plan.ok()) return plan.status();
  }
  int turn = 0;
  return Fastest(WorkOf(*plans[0], messages), caches, [&] {
    turn = 1 - turn;
    return RunAll(*plans[turn], workspace, out);
  });
}

}  // namespace

CostModel::Rates Explain(absl::Span<const Measurement> measured,
                         CostModel::Rates rates) {
  // Rows of a linear system in the logarithms, one after the other, in smaller
  // and smaller steps (Kaczmarz).
  constexpr int kRounds = 300;
  for (int round = 0; round < kRounds; ++round) {
    const double step = 0.5 * (1 - static_cast<double>(round) / kRounds);
    for (const Measurement& each : measured) {
      const CostModel model(rates);
      const double predicted = model.Predict(each.work);
      if (!(predicted > 0) || !(each.seconds > 0)) continue;
      CostModel::Parts shares = model.PartsOf(each.work);
      double squares = 0;
      for (double& share : shares) {
        share /= predicted;
        squares += share * share;
      }
      const double off = std::log(each.seconds / predicted);
      for (size_t i = 0; i < shares.size(); ++i) {
        rates.*CostModel::kTerms[i].rate *=
            std::exp(step * off * shares[i] / squares);
      }
    }
  }
  return rates;
}

absl::StatusOr<CostModel> Calibrate(Workspace& workspace) {
  std::vector<Measurement> measured;
  Caches caches;
  for (const Probe& probe : kProbes) {
    const auto one = Measure(probe, workspace, caches);
    if (!one.ok()) return one.status();
    measured.push_back(*one);
  }
  // This machine's problems, in proportion.
  CostModel::Rates rates = Explain(measured, kAlone);
  for (const CostModel::Term& term : CostModel::kTerms) {
    rates.*term.rate *= kServed.*term.rate / kAlone.*term.rate;
  }
  return CostModel(rates);
}

}  // namespace attnd::server
