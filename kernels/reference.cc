#include "kernels/reference.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/status.h"

namespace attnd {
namespace {

using Int128 = __int128;
using Uint128 = unsigned __int128;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr long double kTwoPi = 6.28318530717958647692528676655900577L;

// t_query - t_key: whole ticks, and for real times the rest of less than two
// ticks. `rounded` is the difference as windows and biases read it.
struct Lag {
  Int128 ticks = 0;
  long double rest = 0;
  double rounded = 0;
};

Lag RealLag(double query, double key) {
  const double q = std::trunc(query), k = std::trunc(key);
  return {static_cast<Int128>(q) - static_cast<Int128>(k),
          static_cast<long double>(query - q) - (key - k), query - key};
}

Lag TickLag(int64_t query, int64_t key) {
  const Int128 ticks = static_cast<Int128>(query) - key;
  return {ticks, 0, static_cast<double>(ticks)};
}

// The rules of MaskSpec for one batch item, pair by pair.
class PairRules {
 public:
  PairRules(const AttentionProblem& problem, int64_t batch)
      : problem_(problem), mask_(problem.mask), batch_(batch) {
    const int64_t rows = problem.query.shape().rows;
    keys_ = problem.key.shape().rows;
    nq_ = mask_.query_lengths.empty() ? rows : mask_.query_lengths[batch];
    nk_ = mask_.key_lengths.empty() ? keys_ : mask_.key_lengths[batch];
  }

  bool Valid(int64_t i, int64_t j) const {
    if (i >= nq_ || j >= nk_) return false;
    return mask_.key_validity.empty() ||
           mask_.key_validity[batch_ * keys_ + j] != 0;
  }

  Lag LagOf(int64_t i, int64_t j) const {
    const TimeAxis &query = problem_.query_time, &key = problem_.key_time;
    switch (query.kind()) {
      case TimeAxis::Kind::kPositions:
        return TickLag(nk_ - nq_ + i, j);
      case TimeAxis::Kind::kTicks:
        return TickLag(query.Ticks(batch_, i), key.Ticks(batch_, j));
      case TimeAxis::Kind::kReal:
        return RealLag(query.Real(batch_, i), key.Real(batch_, j));
    }
    return {};
  }

  bool InTime(const Lag& lag) const {
    if (problem_.query_time.kind() == TimeAxis::Kind::kReal) {
      return Holds(lag.rounded, mask_.past_time, mask_.future_time);
    }
    return Holds(lag.ticks, mask_.past_ticks, mask_.future_ticks);
  }

 private:
  template <typename T, typename Bound>
  bool Holds(T lag, Bound past, Bound future) const {
    if (mask_.causal && (mask_.strict ? lag <= 0 : lag < 0)) return false;
    if (past && lag > static_cast<T>(*past)) return false;
    return !future || lag >= -static_cast<T>(*future);
  }

  const AttentionProblem& problem_;
  const MaskSpec& mask_;
  int64_t batch_, keys_, nq_, nk_;
};

// exp(D X) of one pair: cosine and sine of every plane.
class Rotation {
 public:
  explicit Rotation(const Encoder* encoder) : encoder_(encoder) {
    if (encoder) angles_.resize(encoder->generator().planes().size());
  }

  void Turn(const Lag& lag) {
    for (size_t p = 0; p < angles_.size(); ++p) {
      // Whole ticks: F * n mod 2^128, exact. The frequency F lacks its whole
      // turns, which a part of a tick does not: that takes the true frequency.
      const Uint128 frequency =
          static_cast<Uint128>(encoder_->frequencies_hi()[p]) << 64 |
          encoder_->frequencies_lo()[p];
      const Uint128 phase = frequency * static_cast<Uint128>(lag.ticks);
      long double angle = std::ldexp(static_cast<long double>(phase), -128);
      angle = kTwoPi * (angle >= 0.5L ? angle - 1 : angle);
      if (lag.rest != 0) {
        const TickRatio& ratio = encoder_->ratio();
        angle += encoder_->generator().planes()[p].omega * lag.rest *
                 ratio.tick_ns / ratio.unit_ns;
      }
      angles_[p] = {static_cast<double>(std::cos(angle)),
                    static_cast<double>(std::sin(angle))};
    }
  }

  // rotated = A k and size = |A| |k|.
  void Apply(const std::vector<double>& key, std::vector<double>& rotated,
             std::vector<double>& size) const {
    rotated = key;
    size.resize(key.size());
    for (size_t c = 0; c < key.size(); ++c) size[c] = std::abs(key[c]);
    for (size_t p = 0; p < angles_.size(); ++p) {
      const Plane& plane = encoder_->generator().planes()[p];
      const auto [c, s] = angles_[p];
      const double x = key[plane.first], y = key[plane.second];
      rotated[plane.first] = c * x + s * y;
      rotated[plane.second] = c * y - s * x;
      const double ac = std::abs(c), as = std::abs(s);
      size[plane.first] = ac * std::abs(x) + as * std::abs(y);
      size[plane.second] = ac * std::abs(y) + as * std::abs(x);
    }
  }

 private:
  struct Angle {
    double cosine, sine;
  };
  const Encoder* encoder_;
  std::vector<Angle> angles_;
};

std::vector<double> Row(const TensorRef& tensor, int64_t b, int64_t h,
                        int64_t i) {
  std::vector<float> row(tensor.shape().cols);
  tensor.LoadRow(b, h, i, row.data());
  return {row.begin(), row.end()};
}

// One query row of one head: what it reads and where its answer goes.
struct HeadRow {
  std::vector<double> query;
  std::vector<double> bias;  // per key, broadcast
  double *output, *lse, *scores, *weights, *logit_size, *value_size;
};

// The additive bias of a row, axes of extent 1 broadcast.
std::vector<double> BiasRow(const AttentionProblem& problem, int64_t b,
                            int64_t h, int64_t i) {
  const Shape4& shape = problem.bias.shape();
  const int64_t keys = problem.key.shape().rows;
  if (shape == Shape4{}) return std::vector<double>(keys, 0.0);
  std::vector<double> row =
      Row(problem.bias, shape.batch == 1 ? 0 : b, shape.heads == 1 ? 0 : h,
          shape.rows == 1 ? 0 : i);
  if (shape.cols == 1) row.resize(keys, row[0]);
  return row;
}

// Scores of one query row against every key of its batch item, for all heads
// together because they share the lags.
void ScoreRows(const AttentionProblem& problem, int64_t b, int64_t i,
               const std::vector<HeadRow>& heads) {
  const PairRules rules(problem, b);
  const Encoder* encoder = problem.encoder.get();
  Rotation rotation(encoder);
  const size_t group = heads.size() / problem.key.shape().heads;
  std::vector<double> rotated, size;
  for (int64_t j = 0; j < problem.key.shape().rows; ++j) {
    if (!rules.Valid(i, j)) continue;
    const Lag lag = rules.LagOf(i, j);
    if (!rules.InTime(lag)) continue;
    rotation.Turn(lag);
    for (size_t h = 0; h < heads.size(); ++h) {
      const HeadRow& row = heads[h];
      if (h % group == 0) {
        rotation.Apply(Row(problem.key, b, h / group, j), rotated, size);
      }
      if (row.bias[j] == -kInfinity) continue;
      double dot = 0, dot_size = 0;
      for (size_t c = 0; c < rotated.size(); ++c) {
        dot += row.query[c] * rotated[c];
        dot_size += std::abs(row.query[c]) * size[c];
      }
      if (!std::isfinite(dot_size)) dot = kNaN;
      double decay = 0;
      if (encoder) {
        decay = encoder->slope(static_cast<int>(h)) * std::abs(lag.rounded) *
                encoder->ratio().units_per_tick();
      }
      row.scores[j] = problem.scale * dot - decay + row.bias[j];
      *row.logit_size =
          std::max(*row.logit_size, std::abs(problem.scale) * dot_size + decay +
                                        std::abs(row.bias[j]));
    }
  }
}

// Softmax of one row's scores and its average of the values.
void AverageRow(const TensorRef& value, int64_t b, int64_t kv_head,
                const HeadRow& row) {
  const int64_t keys = value.shape().rows, channels = value.shape().cols;
  double max = -kInfinity, sum = 0;
  bool broken = false;
  for (int64_t j = 0; j < keys; ++j) {
    broken |= std::isnan(row.scores[j]);
    max = std::max(max, row.scores[j]);
  }
  if (max == -kInfinity && !broken) return;  // sees no key
  for (int64_t j = 0; j < keys; ++j) sum += std::exp(row.scores[j] - max);
  *row.lse = broken ? kNaN : max + std::log(sum);
  for (int64_t j = 0; j < keys; ++j) {
    if (row.scores[j] == -kInfinity) continue;
    row.weights[j] = broken ? kNaN : std::exp(row.scores[j] - max) / sum;
    const std::vector<double> v = Row(value, b, kv_head, j);
    for (int64_t c = 0; c < channels; ++c) {
      // 0 * v: NaN from every v that is not finite, whatever its weight.
      row.output[c] += row.weights[j] * v[c] + 0 * v[c];
      *row.value_size = std::max(*row.value_size, std::abs(v[c]));
    }
  }
}

}  // namespace

absl::StatusOr<ReferenceAnswer> ReferenceAttention(
    const AttentionProblem& problem) {
  const Shape4 q = problem.query.shape(), k = problem.key.shape();
  const int64_t channels = problem.value.shape().cols;
  if (k.heads == 0 || q.heads % k.heads != 0) {
    return absl::InvalidArgumentError("key: heads must divide the query's");
  }
  const int64_t rows = q.batch * q.heads * q.rows;
  ReferenceAnswer answer;
  answer.output.resize(rows * channels);
  answer.lse.assign(rows, -kInfinity);
  answer.scores.assign(rows * k.rows, -kInfinity);
  answer.weights.resize(rows * k.rows);
  answer.logit_size.resize(rows);
  answer.value_size.resize(rows);
  for (int64_t b = 0; b < q.batch; ++b) {
    for (int64_t i = 0; i < q.rows; ++i) {
      std::vector<HeadRow> heads;
      for (int64_t h = 0; h < q.heads; ++h) {
        const int64_t r = (b * q.heads + h) * q.rows + i;
        heads.push_back({Row(problem.query, b, h, i), BiasRow(problem, b, h, i),
                         answer.output.data() + r * channels, &answer.lse[r],
                         answer.scores.data() + r * k.rows,
                         answer.weights.data() + r * k.rows,
                         &answer.logit_size[r], &answer.value_size[r]});
      }
      ScoreRows(problem, b, i, heads);
      for (int64_t h = 0; h < q.heads; ++h) {
        AverageRow(problem.value, b, h / (q.heads / k.heads), heads[h]);
      }
    }
  }
  return answer;
}

}  // namespace attnd
