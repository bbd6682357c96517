#include "kernels/reference_encoding.h"

#include <algorithm>
#include <cmath>

#include "kernels/absolute_rows.h"
#include "kernels/matrix_exp.h"

namespace attnd::reference {
namespace {

using Uint128 = unsigned __int128;

constexpr long double kTwoPi = 6.28318530717958647692528676655900577L;

double ClockValue(const TensorRef& clock, int64_t batch, int64_t head,
                  int64_t row, int channel) {
  std::vector<float> values(clock.shape().cols);
  clock.LoadRow(batch, head, row, values.data());
  return values[channel];
}

// size * |ticks|, less whole turns of it.
long double TurnsOf(uint64_t size, long double ticks) {
  int exponent = 0;
  const long double mantissa = std::frexp(std::abs(ticks), &exponent);
  const auto bits = static_cast<uint64_t>(std::ldexp(mantissa, 64));
  const int shift = 64 - exponent;  // ticks = bits / 2^shift
  if (shift <= 0) return 0;
  const Uint128 product = static_cast<Uint128>(size) * bits;
  return shift >= 128
             ? std::ldexp(static_cast<long double>(product), -shift)
             : std::ldexp(static_cast<long double>(product << (128 - shift)),
                          -128);
}

// whole * ticks likewise, for a part of less than two ticks.
long double WholeTurns(Int128 whole, long double ticks) {
  const Uint128 size =
      whole < 0 ? -static_cast<Uint128>(whole) : static_cast<Uint128>(whole);
  const long double turns =
      TurnsOf(static_cast<uint64_t>(size), ticks) +
      TurnsOf(static_cast<uint64_t>(size >> 64), std::ldexp(ticks, 64));
  return (whole < 0) != (ticks < 0) ? -turns : turns;
}

}  // namespace

PairGenerator::PairGenerator(const AttentionProblem& problem,
                             const Encoder* encoder, int64_t batch,
                             int64_t kv_head, TurnCache* turns)
    : problem_(problem),
      encoder_(encoder),
      batch_(batch),
      kv_head_(kv_head),
      turns_(turns) {
  if (encoder == nullptr) return;
  generator_ = &encoder->head(kv_head).generator();
  angles_.resize(generator_->planes().size());
  const auto add = [&](double omega, const Drive& drive) {
    turn_frequencies_.push_back(
        MakeTurnFrequency(omega, encoder->RatioOf(drive)));
  };
  for (const Plane& plane : generator_->planes()) {
    add(plane.omega, plane.drive);
    for (const PlaneTerm& term : plane.further) add(term.omega, term.drive);
  }
  planes_only_ =
      generator_->chains().empty() && generator_->small_blocks().empty() &&
      generator_->free_rotations().empty() && generator_->basis().empty() &&
      generator_->channel_scale().empty() && !generator_->averaged();
}

double PairGenerator::LagOf(const Drive& drive) const {
  if (drive.clock) {
    return ClockValue(problem_.query_clock, batch_, kv_head_, i_,
                      drive.clock_channel) -
           ClockValue(problem_.key_clock, batch_, kv_head_, j_,
                      drive.clock_channel);
  }
  return rules_->LagOf(i_, j_, drive.coordinate).rounded *
         encoder_->RatioOf(drive).units_per_tick();
}

// Whole ticks: F * n mod 2^128, exact. The frequency F lacks its whole turns,
// which a part of a tick does not.
double PairGenerator::Angle(const Drive& drive,
                            const TurnFrequency& turns) const {
  if (drive.clock) {
    // Of clocks that differ by much a double cannot hold the difference.
    const uint64_t word =
        PhaseWord(turns, ClockValue(problem_.query_clock, batch_, kv_head_, i_,
                                    drive.clock_channel)) -
        PhaseWord(turns, ClockValue(problem_.key_clock, batch_, kv_head_, j_,
                                    drive.clock_channel));
    return static_cast<double>(
        kTwoPi *
        std::ldexp(static_cast<long double>(static_cast<int64_t>(word)), -64));
  }
  const Lag lag = rules_->LagOf(i_, j_, drive.coordinate);
  const Uint128 frequency = static_cast<Uint128>(turns.hi) << 64 | turns.lo;
  const Uint128 phase = frequency * static_cast<Uint128>(lag.ticks);
  long double angle = std::ldexp(static_cast<long double>(phase), -128);
  angle += WholeTurns(turns.whole, lag.rest);
  angle += std::ldexp(static_cast<long double>(frequency), -128) * lag.rest;
  // A double holds no more of an angle of many turns.
  angle -= std::round(angle);
  return static_cast<double>(kTwoPi * angle);
}

void PairGenerator::Turn(const PairRules& rules, int64_t i, int64_t j) {
  if (generator_ == nullptr) return;
  rules_ = &rules;
  i_ = i;
  j_ = j;
  auto turns = turn_frequencies_.begin();
  for (size_t p = 0; p < angles_.size(); ++p) {
    const Plane& plane = generator_->planes()[p];
    angles_[p] = Angle(plane.drive, *turns++);
    for (const PlaneTerm& term : plane.further) {
      angles_[p] += Angle(term.drive, *turns++);
    }
  }
  if (planes_only_) return;
  matrix_ = generator_->Exp([this](const Drive& drive) { return LagOf(drive); },
                            angles_, encoder_->absolute_lag());
  for (size_t f = 0; f < generator_->free_rotations().size(); ++f) {
    PutFreeRotation(f);
  }
}

double PairGenerator::PlaceOf(const Drive& drive, bool query) const {
  if (drive.clock) {
    return query ? ClockValue(problem_.query_clock, batch_, kv_head_, i_,
                              drive.clock_channel)
                 : ClockValue(problem_.key_clock, batch_, kv_head_, j_,
                              drive.clock_channel);
  }
  const AbsoluteTime time =
      query ? QueryPlace(problem_, rules_->item(), i_, drive.coordinate)
            : KeyPlace(problem_, rules_->item(), j_, drive.coordinate);
  return (time.exact ? static_cast<double>(time.ticks) : time.real) *
         encoder_->RatioOf(drive).units_per_tick();
}

// exp(sum p_a A_a).
std::vector<double> PairGenerator::TurnOf(const FreeRotation& free,
                                          bool query) const {
  const size_t n = free.channels.size();
  std::vector<double> sum(n * n);
  for (size_t a = 0; a < free.drives.size(); ++a) {
    const double place = PlaceOf(free.drives[a], query);
    for (size_t e = 0; e < n * n; ++e) {
      sum[e] += place * free.generators[a * n * n + e];
    }
  }
  return MatrixExp(sum, static_cast<int>(n), 1);
}

const std::vector<double>& PairGenerator::CachedTurn(size_t number,
                                                     bool query) {
  std::vector<double>& turn = (*turns_)[{query, query ? i_ : j_, number}];
  if (turn.empty()) {
    turn = TurnOf(generator_->free_rotations()[number], query);
  }
  return turn;
}

// R(p_q)^T R(p_k).
void PairGenerator::PutFreeRotation(size_t number) {
  const FreeRotation& free = generator_->free_rotations()[number];
  const size_t n = free.channels.size(), dim = generator_->dim();
  const std::vector<double>& query = CachedTurn(number, true);
  const std::vector<double>& key = CachedTurn(number, false);
  for (size_t r = 0; r < n; ++r) {
    for (size_t c = 0; c < n; ++c) {
      double entry = 0;
      for (size_t k = 0; k < n; ++k) entry += query[k * n + r] * key[k * n + c];
      matrix_[free.channels[r] * dim + free.channels[c]] = entry;
    }
  }
}

void PairGenerator::Apply(const std::vector<double>& key,
                          const std::vector<double>& key_size,
                          std::vector<double>& moved,
                          std::vector<double>& size) const {
  const size_t dim = key.size();
  moved = key;
  size = key_size;
  if (generator_ == nullptr) return;
  if (!planes_only_) {
    for (size_t r = 0; r < dim; ++r) {
      moved[r] = size[r] = 0;
      for (size_t c = 0; c < dim; ++c) {
        moved[r] += matrix_[r * dim + c] * key[c];
        size[r] += std::abs(matrix_[r * dim + c]) * key_size[c];
      }
    }
    return;
  }
  for (size_t p = 0; p < angles_.size(); ++p) {
    const Plane& plane = generator_->planes()[p];
    const double c = std::cos(angles_[p]), s = std::sin(angles_[p]);
    const double x = key[plane.first], y = key[plane.second];
    moved[plane.first] = c * x + s * y;
    moved[plane.second] = c * y - s * x;
    const double ac = std::abs(c), as = std::abs(s);
    const double xs = key_size[plane.first], ys = key_size[plane.second];
    size[plane.first] = ac * xs + as * ys;
    size[plane.second] = ac * ys + as * xs;
  }
}

PairBias::PairBias(const AttentionProblem& problem, const Encoder* encoder,
                   const PairRules& rules)
    : problem_(problem),
      encoder_(encoder),
      batch_(rules.batch()),
      rules_(rules) {}

double PairBias::At(int64_t head, int64_t i, int64_t j, double* size) const {
  *size = 0;
  if (encoder_ == nullptr || !encoder_->has_bias()) return 0;
  const Lag lag = rules_.LagOf(i, j);
  const int h = static_cast<int>(head);
  double bias = -encoder_->slope(h) * std::abs(lag.rounded) *
                encoder_->ratio().units_per_tick();
  *size += std::abs(bias);
  if (!encoder_->lag_bias().empty()) {
    const bool exact = problem_.query_time.kind() != TimeAxis::Kind::kReal;
    const LagPoint point{
        .exact = exact,
        .ticks = static_cast<int64_t>(lag.ticks),
        .real = lag.rounded,
        .elapsed = rules_.LagOf(i, rules_.order().front()).rounded};
    bias += encoder_->lag_bias().Exact(h, point);
    *size += encoder_->lag_bias().Size(h, point);
  }
  if (encoder_->gate_weights().any()) {
    const double term = Gates(head, i, j);
    bias += term;
    *size += std::abs(term);
  }
  if (!encoder_->endpoint_bias().empty()) {
    const int64_t group =
        problem_.query.shape().heads / problem_.key.shape().heads;
    std::vector<float> row(problem_.query.shape().cols);
    problem_.query.LoadRow(batch_, head, i, row.data());
    double factor = encoder_->endpoint_bias().QueryFactor(h, row.data());
    problem_.key.LoadRow(batch_, head / group, j, row.data());
    factor += encoder_->endpoint_bias().KeyFactor(h, row.data());
    const double term = -std::abs(lag.rounded) * factor;
    bias += term;
    *size += std::abs(term);
  }
  return bias;
}

// Gates of the keys between the two times, later than the earlier one.
double PairBias::Gates(int64_t head, int64_t i, int64_t j) const {
  const GateWeights& weights = encoder_->gate_weights();
  const Lag pair = rules_.LagOf(i, j);
  const bool past = pair.ticks > 0 || (pair.ticks == 0 && pair.rest >= 0);
  long double sum = 0;
  bool after_key = false;
  const std::vector<int64_t>& order = rules_.order();
  for (size_t n = 0; n < order.size(); ++n) {
    const int64_t l = order[n];
    const Lag lag = rules_.LagOf(i, l);
    const bool until_query = lag.ticks > 0 || (lag.ticks == 0 && lag.rest >= 0);
    const bool between =
        past ? after_key && until_query : !after_key && !until_query;
    if (between) {
      float gate;
      problem_.gates.LoadRow(batch_, head, l, &gate);
      const double gap = n == 0 ? 0 : rules_.KeyLag(l, order[n - 1]).rounded;
      sum += static_cast<long double>(gate) *
             (weights.per_key + weights.per_tick * gap);
    }
    if (l == j) after_key = true;
  }
  return static_cast<double>(sum);
}

}  // namespace attnd::reference
