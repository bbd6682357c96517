#include "kernels/linear_state.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/linear_frame.h"

namespace attnd {
namespace {

// Elements of the arrays of a state, in the order of its declaration.
struct Counts {
  double keys, ticks, real, clock, sums, normaliser, decay_sum, held_key,
      held_value, held_gap;
};

Counts CountsOf(const LinearStateShape& s) {
  const double items = static_cast<double>(s.items);
  const double heads = items * static_cast<double>(s.kv_heads);
  const double dim = static_cast<double>(s.dim);
  const double value_dim = static_cast<double>(s.value_dim);
  const double places = items * s.coordinates;
  return {.keys = items,
          .ticks = s.exact ? places : 0,
          .real = s.exact ? 0 : places,
          .clock = heads * s.clock_channels,
          .sums = heads * dim * value_dim,
          .normaliser = s.normaliser ? heads * dim : 0,
          .decay_sum = s.decay_sum ? heads : 0,
          .held_key = s.held ? heads * dim : 0,
          .held_value = s.held ? heads * value_dim : 0,
          .held_gap = s.held ? items : 0};
}

absl::Status CheckSize(size_t size, double expected, absl::string_view name) {
  if (static_cast<double>(size) == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("linear.initial_state.", name, ": ", size,
                   " elements, expected ", static_cast<int64_t>(expected)));
}

// Where an item's state stands, seen from the reference of `later`: lags of
// every source and points of every frequency.
struct Standing {
  std::vector<double> lags;  // later minus earlier, per source
  std::vector<PhasePoint> earlier, later;
};

Standing StandingOf(const Encoder& encoder, const HeadEncoder& head,
                    const LinearState& earlier, const LinearState& later,
                    int64_t item, int64_t kv_head) {
  const LinearStateShape& s = earlier.shape;
  Standing out;
  std::vector<PhasePoint> points(encoder.sources().size());
  for (size_t i = 0; i < points.size(); ++i) {
    const Drive& drive = encoder.sources()[i];
    const double unit = encoder.units_per_tick(static_cast<int>(i));
    PhasePoint& point = points[i];
    if (drive.clock) {
      const int64_t at = (item * s.kv_heads + kv_head) * s.clock_channels +
                         drive.clock_channel;
      const double from = earlier.reference_clock[at];
      point = {.kind = PhasePoint::Kind::kClock, .ticks = 0, .real = from};
      point.real = from - later.reference_clock[at];
      out.lags.push_back(-point.real);
      continue;
    }
    const int64_t at = item * s.coordinates + drive.coordinate;
    if (s.exact) {
      // Modular: whatever the distance, phases add up.
      point.ticks = static_cast<int64_t>(
          static_cast<uint64_t>(earlier.reference_ticks[at]) -
          static_cast<uint64_t>(later.reference_ticks[at]));
      out.lags.push_back(-unit * static_cast<double>(point.ticks));
    } else {
      point.kind = PhasePoint::Kind::kReal;
      point.real = earlier.reference_real[at] - later.reference_real[at];
      out.lags.push_back(-unit * point.real);
    }
  }
  for (const HeadEncoder::Frequencies& f : head.frequencies()) {
    out.earlier.push_back(points[f.source]);
    out.later.push_back({.kind = points[f.source].kind, .ticks = 0, .real = 0});
  }
  return out;
}

// a's reference of an item lies before b's.
bool Before(const LinearState& a, const LinearState& b, int64_t item) {
  const int64_t at = item * a.shape.coordinates;
  return a.shape.exact ? a.reference_ticks[at] < b.reference_ticks[at]
                       : a.reference_real[at] < b.reference_real[at];
}

// to += A(E_to - E_from) from, for one head of one item.
void AddHead(const Encoder* encoder, const LinearState& from, int64_t item,
             int64_t kv_head, LinearState& to) {
  const LinearStateShape& s = from.shape;
  const int64_t head_index = item * s.kv_heads + kv_head;
  // Sums beside the normaliser, so that both move together.
  const int64_t width = s.value_dim + (s.normaliser ? 1 : 0);
  std::vector<double> sums(s.dim * width), frame(sums.size());
  for (int64_t c = 0; c < s.dim; ++c) {
    std::copy_n(from.sums.begin() + (head_index * s.dim + c) * s.value_dim,
                s.value_dim, sums.begin() + c * width);
    if (s.normaliser) {
      sums[c * width + s.value_dim] = from.normaliser[head_index * s.dim + c];
    }
  }
  double decay = 1;
  if (encoder != nullptr) {
    const HeadEncoder& head = encoder->head(kv_head);
    const Standing at = StandingOf(*encoder, head, from, to, item, kv_head);
    EnterFrame(&head, at.earlier.data(), s.dim, width, sums.data(),
               frame.data());
    AdvanceFrame(&head, at.lags.data(), false, width, frame.data());
    LeaveFrame(&head, at.later.data(), s.dim, width, frame.data(), sums.data());
    if (!head.exact_rates().empty()) {
      decay =
          std::exp(-head.exact_rates()[0] * at.lags[head.chain_sources()[0]]);
    }
  }
  for (int64_t c = 0; c < s.dim; ++c) {
    for (int64_t v = 0; v < s.value_dim; ++v) {
      to.sums[(head_index * s.dim + c) * s.value_dim + v] +=
          sums[c * width + v];
    }
    if (s.normaliser) {
      to.normaliser[head_index * s.dim + c] += sums[c * width + s.value_dim];
    }
  }
  if (s.decay_sum)
    to.decay_sum[head_index] += decay * from.decay_sum[head_index];
}

}  // namespace

void CopyReference(const LinearState& from, int64_t item, LinearState& to) {
  const LinearStateShape& s = from.shape;
  const auto copy = [&](const auto& source, auto& target, int64_t count) {
    std::copy_n(source.begin() + item * count, count,
                target.begin() + item * count);
  };
  if (s.exact) {
    copy(from.reference_ticks, to.reference_ticks, s.coordinates);
  } else {
    copy(from.reference_real, to.reference_real, s.coordinates);
  }
  copy(from.reference_clock, to.reference_clock, s.kv_heads * s.clock_channels);
}

int64_t LinearStateShape::bytes() const {
  const Counts n = CountsOf(*this);
  const double bytes = 8 * (n.keys + n.ticks + n.real + n.sums + n.normaliser +
                            n.decay_sum + n.held_gap) +
                       4 * (n.clock + n.held_key + n.held_value);
  return bytes < 0x1p62 ? static_cast<int64_t>(bytes)
                        : std::numeric_limits<int64_t>::max();
}

LinearState LinearState::Zero(const LinearStateShape& shape) {
  const Counts n = CountsOf(shape);
  LinearState state;
  state.shape = shape;
  const auto fill = [](auto& array, double count) {
    array.assign(static_cast<size_t>(count), 0);
  };
  fill(state.keys, n.keys);
  fill(state.reference_ticks, n.ticks);
  fill(state.reference_real, n.real);
  fill(state.reference_clock, n.clock);
  fill(state.sums, n.sums);
  fill(state.normaliser, n.normaliser);
  fill(state.decay_sum, n.decay_sum);
  fill(state.held_key, n.held_key);
  fill(state.held_value, n.held_value);
  fill(state.held_gap, n.held_gap);
  return state;
}

absl::Status CheckLinearState(const LinearState& state) {
  const Counts n = CountsOf(state.shape);
  for (const absl::Status& status :
       {CheckSize(state.keys.size(), n.keys, "keys"),
        CheckSize(state.reference_ticks.size(), n.ticks, "reference_ticks"),
        CheckSize(state.reference_real.size(), n.real, "reference_time"),
        CheckSize(state.reference_clock.size(), n.clock, "reference_clock"),
        CheckSize(state.sums.size(), n.sums, "state"),
        CheckSize(state.normaliser.size(), n.normaliser, "normaliser"),
        CheckSize(state.decay_sum.size(), n.decay_sum, "decay_sum"),
        CheckSize(state.held_key.size(), n.held_key, "held_key"),
        CheckSize(state.held_value.size(), n.held_value, "held_value"),
        CheckSize(state.held_gap.size(), n.held_gap, "held_gap")}) {
    if (!status.ok()) return status;
  }
  for (size_t b = 0; b < state.keys.size(); ++b) {
    if (state.keys[b] >= 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("linear.initial_state.keys[",
                                                   b, "]: ", state.keys[b],
                                                   ", expected >= 0"));
  }
  for (double t : state.reference_real) {
    if (std::isfinite(t)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "linear.initial_state.reference_time: ", t, ", expected finite"));
  }
  return absl::OkStatus();
}

absl::StatusOr<LinearState> MergedReferences(
    absl::Span<const LinearState* const> states) {
  const LinearStateShape& shape = states[0]->shape;
  for (const LinearState* state : states) {
    if (!(state->shape == shape)) {
      return absl::InvalidArgumentError(
          "linear.merge_states: the states differ in shape or kind");
    }
    if (absl::Status s = CheckLinearState(*state); !s.ok()) return s;
  }
  if (shape.held && states.size() > 1) {
    return absl::InvalidArgumentError(
        "linear.merge_states: under zero-order hold and trapezoid a segment's "
        "first key depends on the segment before it; carry the state from "
        "piece to piece instead");
  }
  LinearState merged = LinearState::Zero(shape);
  for (int64_t item = 0; item < shape.items; ++item) {
    for (const LinearState* state : states) {
      if (state->keys[item] == 0) continue;
      if (merged.keys[item] == 0 || Before(merged, *state, item)) {
        CopyReference(*state, item, merged);
      }
      merged.keys[item] += state->keys[item];
    }
  }
  return merged;
}

void MergeLinearHead(const Encoder* encoder,
                     absl::Span<const LinearState* const> states, int64_t head,
                     LinearState& merged) {
  const int64_t item = head / merged.shape.kv_heads;
  for (const LinearState* state : states) {
    if (state->keys[item] == 0) continue;
    AddHead(encoder, *state, item, head % merged.shape.kv_heads, merged);
  }
}

absl::StatusOr<LinearState> MergeLinearStates(const Encoder* encoder,
                                              const LinearState& a,
                                              const LinearState& b) {
  const LinearState* const both[] = {&a, &b};
  absl::StatusOr<LinearState> merged = MergedReferences(both);
  if (!merged.ok()) return merged;
  for (int64_t head = 0; head < merged->shape.heads(); ++head) {
    MergeLinearHead(encoder, both, head, *merged);
  }
  return merged;
}

}  // namespace attnd
