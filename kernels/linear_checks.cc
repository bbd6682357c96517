#include "kernels/linear_checks.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/item_checks.h"

namespace attnd {
namespace {

absl::Status Bad(absl::string_view field, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", why));
}

absl::Status CheckSettings(const LinearProblem& problem) {
  const AttentionProblem& p = problem.attention;
  if (!(p.bias.shape() == Shape4{})) {
    return Bad("bias", "has no meaning without a softmax (kind LINEAR)");
  }
  const MaskSpec& m = p.mask;
  if (m.past_ticks || m.future_ticks || m.past_time || m.future_time ||
      m.past_keys || m.future_keys) {
    return Bad("mask",
               "windows are refused by kind LINEAR: a state cannot "
               "forget by window; use a decay");
  }
  if (p.prune_tolerance > 0) {
    return Bad("prune_tolerance",
               "has no meaning for kind LINEAR, which "
               "visits no pairs");
  }
  if (m.prefix > 0) {
    return Bad("mask.prefix",
               "has no meaning for kind LINEAR, which sums over "
               "the past of each query");
  }
  if (m.causal_index && p.query_time.kind() != TimeAxis::Kind::kPositions) {
    return Bad("mask.causal", "kind LINEAR is causal by time");
  }
  if (p.softcap) return Bad("softcap", "has no meaning without a softmax");
  if (!p.sinks.empty()) {
    return Bad("mask.sinks", "have no meaning without a softmax");
  }
  if (!p.value_mask.empty()) {
    return Bad("mask.value_channel_mask", "is not served by kind LINEAR");
  }
  const OutputSet& out = p.outputs;
  if (out.lse || out.scores || out.weights || out.entropy || out.key_mass ||
      out.top_k > 0) {
    return Bad("outputs", "kind LINEAR has OUTPUT_OUTPUT alone");
  }
  const LinearOptions& o = problem.options;
  if (!o.bidirectional) return absl::OkStatus();
  if (problem.initial_state != nullptr || problem.return_state) {
    return Bad("linear.bidirectional", "a carried state knows the past alone");
  }
  if (o.input_rule != LinearOptions::InputRule::kEvent) {
    return Bad("linear.bidirectional", "expected input_rule EVENT");
  }
  if (o.normaliser == LinearOptions::Normaliser::kRetNet) {
    return Bad("linear.bidirectional",
               "RetNet's normaliser is defined for the past alone");
  }
  return absl::OkStatus();
}

// All channels of a head decay alike.
bool HasCommonRate(const Generator& generator) {
  if (!generator.small_blocks().empty()) return false;
  size_t decaying = 0;
  for (const Chain& chain : generator.chains()) {
    const Chain& first = generator.chains()[0];
    if (chain.channels.size() > 1 || chain.rate != first.rate ||
        !(chain.drive == first.drive)) {
      return false;
    }
    ++decaying;
  }
  return decaying == 0 || decaying == static_cast<size_t>(generator.dim());
}

absl::Status CheckLinearEncoder(const LinearProblem& problem,
                                const Encoder& encoder) {
  if (encoder.has_bias()) {
    return Bad("encoding",
               "has biases, which have no meaning without a softmax; for a "
               "slope use a decay of the same rate");
  }
  if (!encoder.absolute().empty()) {
    return Bad("encoding",
               "adds vectors to q and k, which kind LINEAR does "
               "not serve; add them before the call");
  }
  if (encoder.spec().temperature) {
    return Bad("encoding",
               "has a query temperature, which kind LINEAR does "
               "not serve");
  }
  const LinearOptions& o = problem.options;
  for (int64_t h = 0; h < problem.attention.key.shape().heads; ++h) {
    const Generator& generator = encoder.head(h).generator();
    if (generator.averaged()) {
      return Bad("encoding",
                 "is averaged, which is no group: no state carries "
                 "it; see linear.input_rule for held inputs");
    }
    if (!generator.relative()) {
      return Bad("encoding", "is no function of lags");
    }
    if (!generator.bounded()) {
      return Bad("encoding",
                 "grows without bound with the lag; kind LINEAR "
                 "needs Jordan blocks with a rate > 0");
    }
    if (!encoder.head(h).decays_sorted()) {
      return Bad("encoding",
                 "decays along a coordinate other than the first, which no "
                 "order of rows follows: a state cannot shrink and grow back; "
                 "use kind SOFTMAX");
    }
    if (o.normaliser == LinearOptions::Normaliser::kRetNet &&
        !HasCommonRate(generator)) {
      return Bad("linear.normaliser",
                 "RETNET needs one decay rate for all channels of a head");
    }
    if (o.bidirectional && generator.one_sided() && !encoder.absolute_lag()) {
      return Bad("linear.bidirectional",
                 "the encoding is defined for lag >= 0 only; set two_sided to "
                 "TWO_SIDED_RULE_ABSOLUTE_LAG");
    }
  }
  const bool carries = problem.initial_state != nullptr || problem.return_state;
  if (carries && encoder.length_dependent()) {
    return Bad("linear",
               "the encoding depends on the length of an item, so no "
               "state carries it from piece to piece");
  }
  if (carries && encoder.hf_fp32_angles()) {
    return Bad("linear",
               "angles in float32 do not add up from piece to piece; "
               "use the exact ones");
  }
  return absl::OkStatus();
}

std::string RowText(const ItemGeometry& geometry, bool query, int64_t item) {
  return absl::StrCat(query ? "query_time" : "key_time", ": item ", item,
                      ", row ",
                      query ? geometry.QueryRow(0) : geometry.KeyRow(0));
}

// Clocks of the first rows, which are the smallest.
absl::Status CheckClockStart(const LinearProblem& problem, const Plan& rows,
                             int64_t item) {
  const AttentionProblem& p = problem.attention;
  const LinearState& state = *problem.initial_state;
  const ItemGeometry& geometry = rows.item(item);
  for (const Drive& drive : rows.encoder(item)->sources()) {
    if (!drive.clock) continue;
    for (int64_t h = 0; h < state.shape.kv_heads; ++h) {
      const float reference =
          state.reference_clock[(item * state.shape.kv_heads + h) *
                                    state.shape.clock_channels +
                                drive.clock_channel];
      for (bool query : {true, false}) {
        if ((query ? geometry.query_rows : geometry.key_rows) == 0) continue;
        const TensorRef& clock = query ? p.query_clock : p.key_clock;
        const int64_t row = query ? geometry.QueryRow(0) : geometry.KeyRow(0);
        std::vector<float> values(clock.shape().cols);
        clock.LoadRow(rows.batch(item), h, row, values.data());
        if (values[drive.clock_channel] >= reference) continue;
        return Bad(query ? "query_clock" : "key_clock",
                   absl::StrCat("element [", rows.batch(item), ",", h, ",", row,
                                ",", drive.clock_channel,
                                "]: ", values[drive.clock_channel],
                                " lies before the clock of the initial state, ",
                                reference));
      }
    }
  }
  return absl::OkStatus();
}

// Clocks never fall along keys: the nearest one on each side is enough.
absl::Status CheckClockSides(const LinearProblem& problem, const Plan& rows,
                             int64_t item, const Drive& drive, int64_t head) {
  const AttentionProblem& p = problem.attention;
  const ItemGeometry& geometry = rows.item(item);
  const int64_t batch = rows.batch(item);
  const auto value = [&](const TensorRef& clock, int64_t row) {
    std::vector<float> values(clock.shape().cols);
    clock.LoadRow(batch, head, row, values.data());
    return values[drive.clock_channel];
  };
  for (int64_t i = 0; i < geometry.query_rows; ++i) {
    const int64_t row = geometry.QueryRow(i), after = geometry.end[i];
    const float u = value(p.query_clock, row);
    const auto refuse = [&](absl::string_view side, float key) {
      return Bad(
          "query_clock",
          absl::StrCat("element [", batch, ",", head, ",", row, ",",
                       drive.clock_channel, "]: ", u, " lies ", side, " ", key,
                       "; kind LINEAR needs clocks in the order of times "
                       "where blocks decay"));
    };
    if (after > 0) {
      const float key = value(p.key_clock, geometry.KeyRow(after - 1));
      if (key > u)
        return refuse("before that of a key that came earlier,", key);
    }
    if (problem.options.bidirectional && after < geometry.key_rows) {
      const float key = value(p.key_clock, geometry.KeyRow(after));
      if (key < u) return refuse("behind that of a key that comes later,", key);
    }
  }
  return absl::OkStatus();
}

// Modular: the difference of any two ticks of one item fits.
int64_t Minus(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) -
                              static_cast<uint64_t>(b));
}

// Earliest tick of an item before it was rebased; 0 without rows.
int64_t FirstTick(const AttentionProblem& problem, const Plan& rows,
                  int64_t item, int coordinate) {
  const ItemGeometry& geometry = rows.item(item);
  const int64_t batch = rows.batch(item);
  const ItemGeometry::Coordinate* further =
      coordinate == 0 ? nullptr : &geometry.further[coordinate - 1];
  if (geometry.key_rows > 0) {
    return Minus(
        problem.key_time.Ticks(batch, geometry.KeyRow(0), coordinate),
        (further == nullptr ? geometry.key_ticks : further->key_ticks)[0]);
  }
  if (geometry.query_rows == 0) return 0;
  return Minus(
      problem.query_time.Ticks(batch, geometry.QueryRow(0), coordinate),
      (further == nullptr ? geometry.query_ticks : further->query_ticks)[0]);
}

}  // namespace

absl::Status CheckLinearProblem(const LinearProblem& problem) {
  if (absl::Status s = CheckSettings(problem); !s.ok()) return s;
  const AttentionProblem& p = problem.attention;
  if (p.encoder != nullptr) {
    absl::Status s = CheckLinearEncoder(problem, *p.encoder);
    if (!s.ok()) return s;
  }
  for (const auto& encoder : p.item_encoders) {
    if (encoder == nullptr) continue;
    absl::Status s = CheckLinearEncoder(problem, *encoder);
    if (!s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status CheckLinearClocks(const LinearProblem& problem, const Plan& rows,
                               int64_t item) {
  const Encoder* encoder = rows.encoder(item);
  if (encoder == nullptr || !encoder->absolute_lag()) return absl::OkStatus();
  for (size_t s = 0; s < encoder->sources().size(); ++s) {
    const Drive& drive = encoder->sources()[s];
    for (int64_t h = 0; h < problem.attention.key.shape().heads; ++h) {
      if (!drive.clock || !DecaysAlong(encoder->head(h), static_cast<int>(s))) {
        continue;
      }
      absl::Status status = CheckClockSides(problem, rows, item, drive, h);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

int64_t RebasedReference(const LinearProblem& problem, const Plan& rows,
                         int64_t item, int coordinate) {
  const AttentionProblem& p = problem.attention;
  if (p.key_time.kind() == TimeAxis::Kind::kPositions) {
    // One before key 0; ticks count from the first position of the item.
    const ItemRows its = rows.rows(item);
    const ItemGeometry& geometry = rows.item(item);
    int64_t first = INT64_MAX;
    if (geometry.query_rows > 0) first = its.first_position();
    if (geometry.key_rows > 0) {
      first = std::min(first, geometry.KeyRow(0) - its.first_key);
    }
    return first == INT64_MAX ? 0 : -1 - first;
  }
  const LinearState& state = *problem.initial_state;
  return Minus(
      state.reference_ticks[item * state.shape.coordinates + coordinate],
      FirstTick(p, rows, item, coordinate));
}

absl::Status CheckLinearStart(const LinearProblem& problem,
                              const LinearStateShape& expected,
                              const Plan& rows, int64_t item) {
  const LinearState* state = problem.initial_state;
  if (state == nullptr || state->keys[item] == 0) return absl::OkStatus();
  const bool strict = problem.attention.mask.strict;
  const ItemGeometry& geometry = rows.item(item);
  for (bool query : {true, false}) {
    if ((query ? geometry.query_rows : geometry.key_rows) == 0) continue;
    bool after, at;
    if (expected.exact) {
      const int64_t first =
          (query ? geometry.query_ticks : geometry.key_ticks)[0];
      // A reference 2^63 ticks before the rows wraps to behind them: refused
      // as well.
      const int64_t reference = RebasedReference(problem, rows, item, 0);
      after = first > reference;
      at = first == reference;
    } else {
      const double first = (query ? geometry.query_real : geometry.key_real)[0];
      const double reference =
          state->reference_real[item * state->shape.coordinates];
      after = first > reference;
      at = first == reference;
    }
    if (after || (at && !(query && strict))) continue;
    return Bad(RowText(geometry, query, item),
               "lies before the reference time of linear.initial_state; pieces "
               "of a stream follow each other in time");
  }
  const Encoder* encoder = rows.encoder(item);
  if (encoder == nullptr || !encoder->uses_clock()) return absl::OkStatus();
  return CheckClockStart(problem, rows, item);
}

}  // namespace attnd
