#include "tests/kernels/linear_answer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "absl/strings/str_cat.h"
#include "kernels/float16.h"
#include "kernels/linear_carry.h"
#include "tests/kernels/answer.h"

namespace attnd::testing {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kEpoch = 1'700'000'000 * kSecond;

EncodingSpec Spec(std::vector<Block> blocks) {
  EncodingSpec spec;
  spec.blocks = std::move(blocks);
  spec.unit_ns = kSecond;
  return spec;
}

std::vector<double> Powers(int count, double low, double high) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) {
    values.push_back(low * std::pow(high / low, i / (count - 1.0)));
  }
  return values;
}

LinearProblem ProblemOf(const LinearCase& which, const OwnedProblem& owned) {
  LinearProblem problem;
  problem.attention = owned.problem();
  problem.options = which.options;
  problem.gap_ratio = which.spec.ratio;
  return problem;
}

LinearWorkspace& ThisThreadsLinearWorkspace() {
  thread_local std::unique_ptr<LinearWorkspace> workspace =
      LinearWorkspace::Create().value();
  return *workspace;
}

}  // namespace

absl::StatusOr<LinearAnswer> RunLinearCase(const LinearCase& which,
                                           const LinearState* initial,
                                           bool return_state) {
  auto owned = OwnedProblem::Build(which.spec);
  if (!owned.ok()) return owned.status();
  LinearProblem problem = ProblemOf(which, *owned);
  problem.initial_state = initial;
  problem.return_state = return_state;
  const auto plan = LinearPlan::Make(problem);
  if (!plan.ok()) return plan.status();
  LinearAnswer answer;
  // A number that no kernel writes.
  std::vector<float> output(plan->output_elements(), -12345.0f);
  const DType dtype = which.spec.output_dtype;
  std::vector<uint16_t> halves(dtype == DType::kF32 ? 0 : output.size());
  if (return_state) answer.state = StartState(*plan);
  absl::Status status =
      RunLinear(*plan, ThisThreadsLinearWorkspace(),
                {.output = absl::MakeSpan(output),
                 .halves = absl::MakeSpan(halves),
                 .state = return_state ? &answer.state : nullptr});
  if (!status.ok()) return status;
  if (!halves.empty()) {
    FloatsFromHalves(dtype, reinterpret_cast<const char*>(halves.data()),
                     static_cast<int64_t>(halves.size()), output.data());
  }
  answer.output = output;
  const ProblemSpec& s = which.spec;
  if (s.query_layout == Layout::kBLHD) {
    for (int64_t b = 0; b < s.batch; ++b) {
      for (int64_t h = 0; h < s.query_heads; ++h) {
        for (int64_t i = 0; i < s.queries; ++i) {
          const int64_t from = (b * s.queries + i) * s.query_heads + h;
          const int64_t to = (b * s.query_heads + h) * s.queries + i;
          std::copy_n(output.begin() + from * s.value_dim, s.value_dim,
                      answer.output.begin() + to * s.value_dim);
        }
      }
    }
  }
  return answer;
}

bool ReferenceKnows(const LinearCase& which) {
  const auto owned = OwnedProblem::Build(which.spec);
  return owned.ok() && !absl::IsOutOfRange(
                           ReferenceLinear(ProblemOf(which, *owned)).status());
}

LinearReferenceAnswer ReferenceOf(const LinearCase& which) {
  const auto owned = OwnedProblem::Build(which.spec);
  if (!owned.ok()) {
    ADD_FAILURE() << owned.status();
    return {};
  }
  return ReferenceLinear(ProblemOf(which, *owned)).value();
}

std::string Compare(const LinearCase& which, const std::vector<float>& output,
                    const LinearReferenceAnswer& reference, double slack,
                    double least) {
  if (output.size() != reference.output.size()) return "sizes differ";
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < output.size(); ++i) {
    const double expected = reference.output[i];
    if (std::isnan(expected) && std::isnan(output[i])) continue;
    // No float holds it.
    if (std::abs(expected) > 3e38 && !std::isnan(output[i])) continue;
    const double error = std::abs(output[i] - expected);
    const double rounding = kLinearError * slack * reference.size[i] + least;
    const double bound = rounding + HalfUlp(which.spec.output_dtype,
                                            std::abs(expected) + rounding);
    if (error <= bound) continue;
    const double excess =
        std::isnan(error) || bound == 0 ? INFINITY : error / bound;
    if (excess > worst) {
      worst = excess;
      at = i;
    }
  }
  if (worst == 0) return "";
  const int64_t row = static_cast<int64_t>(at) / which.spec.value_dim;
  return absl::StrCat(which.spec.Describe(), ": output of row ",
                      row % which.spec.queries, ", head ",
                      row / which.spec.queries, ", channel ",
                      at % which.spec.value_dim, " is ", output[at],
                      ", expected ", reference.output[at], ", size ",
                      reference.size[at], ": ", worst, " times the bound");
}

std::string Judge(const LinearCase& which, double slack, double least) {
  const auto answer = RunLinearCase(which);
  if (!answer.ok()) return answer.status().ToString();
  return Compare(which, answer->output, ReferenceOf(which), slack, least);
}

ProblemSpec Piece(const ProblemSpec& spec, int64_t first, int64_t last) {
  ProblemSpec piece = spec;
  piece.queries = piece.keys = last - first;
  const auto cut = [&](auto& values, int64_t outer, int64_t inner) {
    if (values.empty()) return;
    const auto whole = values;
    const int64_t rows = static_cast<int64_t>(whole.size()) / (outer * inner);
    values.clear();
    for (int64_t o = 0; o < outer; ++o) {
      values.insert(values.end(), whole.begin() + (o * rows + first) * inner,
                    whole.begin() + (o * rows + last) * inner);
    }
  };
  cut(piece.query, spec.query_heads, spec.dim);
  cut(piece.key, spec.kv_heads, spec.dim);
  cut(piece.value, spec.kv_heads, spec.value_dim);
  cut(piece.query_ticks, 1, 1);
  cut(piece.key_ticks, 1, 1);
  cut(piece.query_real, 1, 1);
  cut(piece.key_real, 1, 1);
  cut(piece.query_clock, spec.kv_heads, spec.clock_channels);
  cut(piece.key_clock, spec.kv_heads, spec.clock_channels);
  cut(piece.key_validity, 1, 1);
  return piece;
}

std::vector<LinearFamily> LinearFamilies() {
  const DampedRotationBlock damped{.frequencies = Powers(8, 0.003, 8),
                                   .rates = Powers(8, 1e-4, 30)};
  const ComplexJordanBlock jordan{.size = 2,
                                  .frequencies = {1, 0.1, 3},
                                  .rates = {0.1, 0.01, 1},
                                  .eta = 0.05};
  ComplexJordanBlock jordan4 = jordan;
  jordan4.size = 4;
  jordan4.frequencies = {2};
  jordan4.rates = {0.3};
  return {
      {"nope", {}},
      {"rope", Spec({RotaryBlock{}})},
      {"decay", Spec({DecayBlock{.rates = Powers(16, 1e-5, 1e3)}})},
      {"some decay", Spec({IdentityBlock{3}, DecayBlock{.rates = {0.5, 7}}})},
      {"damped", Spec({damped})},
      {"jordan 2",
       Spec({RealJordanBlock{.size = 2, .rates = {0.2}, .tau = 3}})},
      {"jordan 3",
       Spec({RealJordanBlock{
           .size = 3, .rates = Powers(5, 0.01, 5), .tau = 10, .chains = 5}})},
      {"complex jordan 2", Spec({jordan})},
      {"complex jordan 4", Spec({jordan4})},
      {"dense",
       Spec({DenseMatrixBlock{.dim = 4,
                              .matrix = {-0.5, 2, 0.1, 0, -2, -0.5, 0, 0.2, 0,
                                         0, -3, 1, 0, 0, 0, -0.01}}})},
      {"defective", Spec({DenseMatrixBlock{
                        .dim = 3, .matrix = {-1, 1, 0, 0, -1, 1, 0, 0, -1}}})},
      {"a sum",
       Spec({RealJordanBlock{.size = 2, .rates = {0.1}, .chains = 2},
             RotaryBlock{.rotary_dim = 4}, DecayBlock{.rates = {0.1, 3}}})},
      {"clock decay", Spec({Block(damped, Drive{.clock = true})}), true},
  };
}

std::vector<int64_t> IrregularTimes(Random& random, int64_t count) {
  std::vector<int64_t> times;
  int64_t t = kEpoch;
  for (int64_t i = 0; i < count; ++i) {
    times.push_back(t);
    if (random.Integer(0, 9) == 0) continue;
    t += static_cast<int64_t>(std::pow(10.0, 6 * random.Uniform() - 4) *
                              kSecond);
  }
  return times;
}

ProblemSpec LinearSpec(const LinearFamily& family, uint64_t seed,
                       int64_t queries, int64_t keys) {
  Random random(seed);
  ProblemSpec spec;
  spec.seed = seed;
  spec.query_heads = 2;
  spec.kv_heads = 1;
  spec.queries = queries;
  spec.keys = keys;
  spec.dim = 16;
  spec.value_dim = 8;
  spec.Fill(random);
  spec.kind = TimeAxis::Kind::kTicks;
  spec.key_ticks = IrregularTimes(random, keys);
  spec.query_ticks = spec.key_ticks;
  if (queries != keys) {
    spec.query_ticks.clear();
    for (int64_t i = 0; i < queries; ++i) {
      spec.query_ticks.push_back(
          (keys == 0 ? kEpoch : random.Pick(spec.key_ticks)) +
          random.Integer(-kSecond, kSecond));
    }
  }
  if (family.spec.uses_time()) spec.encoding = family.spec;
  spec.ratio = {.tick_ns = 1, .unit_ns = kSecond};
  spec.scale = 0.25f;
  if (family.clock) {
    const auto clock = [&](const std::vector<int64_t>& times) {
      std::vector<float> values;
      for (int64_t t : times) {
        values.push_back(static_cast<float>(
            std::floor(static_cast<double>(t - kEpoch) / kSecond)));
      }
      return values;
    };
    spec.query_clock = clock(spec.query_ticks);
    spec.key_clock = clock(spec.key_ticks);
  }
  return spec;
}

void ShortenTimes(ProblemSpec& spec, int64_t by) {
  for (auto* ticks : {&spec.query_ticks, &spec.key_ticks}) {
    for (int64_t& t : *ticks) t = kEpoch + (t - kEpoch) / by;
  }
}

LinearFamily FamilyNamed(const std::string& name) {
  for (const LinearFamily& family : LinearFamilies()) {
    if (family.name == name) return family;
  }
  ADD_FAILURE() << "no family " << name;
  return {};
}

}  // namespace attnd::testing
