#include "kernels/reference.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "kernels/absolute_rows.h"
#include "kernels/reference_encoding.h"
#include "kernels/reference_pairs.h"

namespace attnd {
namespace {

using reference::PairBias;
using reference::PairGenerator;
using reference::PairRules;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

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

bool HasAbsolute(const Encoder* encoder) {
  return encoder != nullptr && !encoder->absolute().empty();
}

// A row with its absolute part. `size` counts both, which may cancel.
struct EncodedRow {
  std::vector<double> value, size;
};

EncodedRow WithAbsolute(const std::vector<double>& row, const Encoder* encoder,
                        bool query, int head, const AbsoluteTime& time) {
  EncodedRow encoded{.value = row, .size = row};
  for (double& x : encoded.size) x = std::abs(x);
  if (!HasAbsolute(encoder)) return encoded;
  std::vector<double> part(row.size());
  encoder->absolute().Exact(query, head, time, part.data());
  for (size_t c = 0; c < row.size(); ++c) {
    encoded.value[c] += part[c];
    encoded.size[c] += std::abs(part[c]);
  }
  return encoded;
}

// The factor of query_temperature.h, from the rules.
double Temperature(const Encoder* encoder, const PairRules& rules, int64_t i) {
  if (encoder == nullptr || !encoder->spec().temperature) return 1;
  const QueryTemperature& t = *encoder->spec().temperature;
  int64_t visible = 0;
  double elapsed = -kInfinity;  // since the first valid key, in units
  for (int64_t j : rules.order()) {
    if (rules.Sees(i, j)) ++visible;
    elapsed = std::max(
        elapsed, rules.LagOf(i, j).rounded * encoder->ratio().units_per_tick());
  }
  if (!t.llama4) {
    return visible == 0 ? 1
                        : std::max(1.0, std::log(visible) / std::log(t.length));
  }
  const double steps = std::floor((elapsed + t.offset) / t.length);
  return steps < 0 ? 1 : 1 + t.scale * std::log1p(steps);
}

AbsoluteTime QueryAsEvent(const AttentionProblem& problem,
                          const PairRules& rules, int64_t i) {
  AbsoluteTime place = QueryPlace(problem, rules.item(), i);
  place.index = rules.QueryEvent(i);
  return place;
}

AbsoluteTime KeyAsEvent(const AttentionProblem& problem, const PairRules& rules,
                        int64_t j) {
  AbsoluteTime place = KeyPlace(problem, rules.item(), j);
  place.index = rules.KeyEvent(j);
  return place;
}

// Scores of one query row against every key of its item.
void ScoreRows(const AttentionProblem& problem, const PairRules& rules,
               int64_t item, int64_t i, const std::vector<HeadRow>& heads,
               std::vector<reference::TurnCache>& turns) {
  const int64_t b = rules.batch();
  const Encoder* encoder = problem.item_encoders.empty()
                               ? problem.encoder.get()
                               : problem.item_encoders[item].get();
  const PairBias biases(problem, encoder, rules);
  const size_t group = heads.size() / problem.key.shape().heads;
  const double temperature = Temperature(encoder, rules, i);
  // To count the queries before one takes a look at all of them.
  const AbsoluteTime query_place =
      HasAbsolute(encoder) ? QueryAsEvent(problem, rules, i) : AbsoluteTime{};
  for (size_t g = 0; g < heads.size() / group; ++g) {
    PairGenerator generator(problem, encoder, b, static_cast<int64_t>(g),
                            &turns[g]);
    std::vector<double> moved, size;
    for (int64_t j = 0; j < problem.key.shape().rows; ++j) {
      if (!rules.Sees(i, j)) continue;
      generator.Turn(rules, i, j);
      const EncodedRow key = WithAbsolute(
          Row(problem.key, b, static_cast<int64_t>(g), j), encoder, false,
          static_cast<int>(g), KeyAsEvent(problem, rules, j));
      generator.Apply(key.value, key.size, moved, size);
      for (size_t h = g * group; h < (g + 1) * group; ++h) {
        const HeadRow& row = heads[h];
        if (row.bias[j] == -kInfinity) continue;
        double dot = 0, dot_size = 0, bias_size = 0;
        const EncodedRow query = WithAbsolute(row.query, encoder, true,
                                              static_cast<int>(g), query_place);
        for (size_t c = 0; c < moved.size(); ++c) {
          dot += query.value[c] * moved[c];
          dot_size += query.size[c] * size[c];
        }
        dot *= temperature;
        dot_size *= std::abs(temperature);
        if (!std::isfinite(dot_size)) dot = kNaN;
        const double bias =
            biases.At(static_cast<int64_t>(h), i, j, &bias_size);
        double logit = problem.scale * dot;
        if (problem.softcap) {
          logit = *problem.softcap * std::tanh(logit / *problem.softcap);
        }
        row.scores[j] = logit + bias + row.bias[j];
        *row.logit_size =
            std::max(*row.logit_size, std::abs(problem.scale) * dot_size +
                                          bias_size + std::abs(row.bias[j]));
      }
    }
  }
}

// Softmax over the finite ones of `scores`, a sink's logit beside them; weights
// are 0 for the others. Returns the lse.
double Softmax(const std::vector<double>& scores, double sink,
               std::vector<double>* weights) {
  weights->assign(scores.size(), 0);
  double max = sink, sum = 0;
  for (double s : scores) {
    if (std::isnan(s)) {
      for (size_t j = 0; j < scores.size(); ++j) {
        if (scores[j] != -kInfinity) (*weights)[j] = kNaN;
      }
      return kNaN;
    }
    max = std::max(max, s);
  }
  if (max == -kInfinity) return max;  // nothing to see
  for (double s : scores) sum += std::exp(s - max);
  sum += std::exp(sink - max);
  for (size_t j = 0; j < scores.size(); ++j) {
    (*weights)[j] = std::exp(scores[j] - max) / sum;
  }
  return max + std::log(sum);
}

// Softmax of one row's scores and its average of the values.
void AverageRow(const AttentionProblem& problem, int64_t b, int64_t head,
                const HeadRow& row) {
  const TensorRef& value = problem.value;
  const int64_t keys = value.shape().rows, channels = value.shape().cols;
  const int64_t kv_head =
      head / (problem.query.shape().heads / problem.key.shape().heads);
  const double sink = problem.sinks.empty() ? -kInfinity : problem.sinks[head];
  const std::vector<double> scores(row.scores, row.scores + keys);
  std::vector<double> weights;
  *row.lse = Softmax(scores, sink, &weights);
  std::copy(weights.begin(), weights.end(), row.weights);
  std::vector<std::vector<double>> values;
  for (int64_t j = 0; j < keys; ++j) {
    values.push_back(Row(value, b, kv_head, j));
  }
  for (int64_t c = 0; c < channels; ++c) {
    std::vector<double> seen = scores;
    if (!problem.value_mask.empty()) {
      for (int64_t j = 0; j < keys; ++j) {
        if (problem.value_mask[(b * keys + j) * channels + c] == 0) {
          seen[j] = -kInfinity;
        }
      }
      Softmax(seen, sink, &weights);
      // Of a row that is no number, no channel is.
      if (std::isnan(*row.lse)) row.output[c] = kNaN;
    }
    for (int64_t j = 0; j < keys; ++j) {
      if (seen[j] == -kInfinity) continue;
      const double v = values[j][c];
      // 0 * v: NaN from every v that is not finite, whatever its weight.
      row.output[c] += weights[j] * v + 0 * v;
      *row.value_size = std::max(*row.value_size, std::abs(v));
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
  for (int64_t item = 0; item < ItemCount(problem); ++item) {
    const PairRules rules(problem, item);
    const int64_t b = rules.batch();
    std::vector<reference::TurnCache> turns(k.heads);
    for (int64_t i = 0; i < q.rows; ++i) {
      if (!rules.ValidQuery(i)) continue;
      std::vector<HeadRow> heads;
      for (int64_t h = 0; h < q.heads; ++h) {
        const int64_t r = (b * q.heads + h) * q.rows + i;
        heads.push_back({Row(problem.query, b, h, i), BiasRow(problem, b, h, i),
                         answer.output.data() + r * channels, &answer.lse[r],
                         answer.scores.data() + r * k.rows,
                         answer.weights.data() + r * k.rows,
                         &answer.logit_size[r], &answer.value_size[r]});
      }
      ScoreRows(problem, rules, item, i, heads, turns);
      for (int64_t h = 0; h < q.heads; ++h) {
        AverageRow(problem, b, h, heads[h]);
      }
    }
  }
  return answer;
}

}  // namespace attnd
