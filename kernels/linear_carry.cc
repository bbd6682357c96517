#include "kernels/linear_carry.h"

#include <algorithm>
#include <vector>

#include "kernels/gemm.h"
#include "kernels/linear_frame.h"

namespace attnd {

LinearState StartState(const LinearPlan& plan) {
  const LinearStateShape& shape = plan.state_shape();
  const AttentionProblem& p = plan.problem().attention;
  LinearState state = LinearState::Zero(shape);
  const LinearState* initial = plan.problem().initial_state;
  for (int64_t item = 0; item < shape.items; ++item) {
    const ItemGeometry& rows = plan.rows().item(item);
    if (initial != nullptr) CopyReference(*initial, item, state);
    state.keys[item] =
        (initial == nullptr ? 0 : initial->keys[item]) + rows.key_rows;
    if (rows.key_rows == 0) continue;
    const int64_t batch = plan.rows().batch(item);
    const int64_t last = rows.KeyRow(rows.key_rows - 1);
    for (int c = 0; c < shape.coordinates; ++c) {
      const int64_t at = item * shape.coordinates + c;
      if (!shape.exact) {
        state.reference_real[at] = p.key_time.Real(batch, last, c);
      } else if (p.key_time.kind() == TimeAxis::Kind::kTicks) {
        state.reference_ticks[at] = p.key_time.Ticks(batch, last, c);
      } else {
        state.reference_ticks[at] = last - plan.rows().rows(item).first_key;
      }
    }
    for (int64_t g = 0; g < shape.kv_heads && shape.clock_channels > 0; ++g) {
      std::vector<float> values(p.key_clock.shape().cols);
      p.key_clock.LoadRow(batch, g, last, values.data());
      std::copy_n(values.begin(), shape.clock_channels,
                  state.reference_clock.begin() +
                      (item * shape.kv_heads + g) * shape.clock_channels);
    }
  }
  return state;
}

void LoadState(const LinearHead& at, LinearSums& sums) {
  const LinearStateShape& shape = at.plan.state_shape();
  const int64_t width = at.plan.width();
  sums.Reset(PaddedDim(shape.dim), width);
  if (!at.walk.has_start()) return;
  const LinearState& state = *at.plan.problem().initial_state;
  const int64_t head = at.item * shape.kv_heads + at.kv_head;
  std::vector<double> sent(shape.dim * width, 0.0);
  for (int64_t c = 0; c < shape.dim; ++c) {
    std::copy_n(state.sums.begin() + (head * shape.dim + c) * shape.value_dim,
                shape.value_dim, sent.begin() + c * width);
    if (shape.normaliser) {
      sent[c * width + shape.value_dim] =
          state.normaliser[head * shape.dim + c];
    }
  }
  EnterFrame(at.encoder,
             at.encoder == nullptr ? nullptr : at.walk.axes().OriginPoints(),
             shape.dim, width, sent.data(), sums.exact());
  // The products apply the scale; that of the encoder is in the frame.
  sums.Round();
}

void StoreState(const LinearHead& at, const LinearSums& sums,
                const LinearNormaliser& normaliser, HeldKeys& held,
                LinearState& state) {
  const LinearStateShape& shape = at.plan.state_shape();
  const int64_t head = at.item * shape.kv_heads + at.kv_head;
  const int64_t width = at.plan.width();
  std::vector<double> sent(shape.dim * width, 0.0);
  const PhasePoint* points = at.encoder == nullptr ? nullptr
                             : at.walk.keys() > 0
                                 ? at.walk.KeyPoints(at.walk.keys() - 1)
                                 : at.walk.axes().OriginPoints();
  LeaveFrame(at.encoder, points, shape.dim, width, sums.exact(), sent.data());
  for (int64_t c = 0; c < shape.dim; ++c) {
    std::copy_n(sent.begin() + c * width, shape.value_dim,
                state.sums.begin() + (head * shape.dim + c) * shape.value_dim);
    if (shape.normaliser) {
      state.normaliser[head * shape.dim + c] =
          sent[c * width + shape.value_dim];
    }
  }
  if (shape.decay_sum) {
    state.decay_sum[head] = normaliser.decay_sum();
  }
  if (shape.held) {
    held.Last(state.held_key.data() + head * shape.dim,
              state.held_value.data() + head * shape.value_dim);
    // The same for every head of the item.
    if (at.kv_head == 0) state.held_gap[at.item] = held.LastGap();
  }
}

}  // namespace attnd
