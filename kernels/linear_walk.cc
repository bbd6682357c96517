#include "kernels/linear_walk.h"

#include <algorithm>
#include <utility>

#include "kernels/linear_checks.h"

namespace attnd {

void LinearWalk::Select(const LinearPlan& plan, int64_t item, int64_t kv_head,
                        bool backward) {
  item_ = &plan.rows().item(item);
  backward_ = backward;
  strict_ = plan.problem().attention.mask.strict;
  axes_.Select(plan.rows(), item, kv_head, false);
  const Encoder* encoder = plan.rows().encoder(item);
  phase_floats_ = axes_.phase_floats();
  for (PhaseCache* cache : {&key_phases_, &query_phases_}) {
    if (!axes_.shared()) cache->rows.Reserve(kLinearChunk * phase_floats_);
    cache->row.fill(-1);
  }
  unit_ = encoder == nullptr ? plan.problem().gap_ratio.units_per_tick()
                             : encoder->ratio().units_per_tick();
  const LinearState* state = plan.problem().initial_state;
  has_start_ = state != nullptr && state->keys[item] > 0;
  if (has_start_) SetStart(plan, item, kv_head);
}

void LinearWalk::SetStart(const LinearPlan& plan, int64_t item,
                          int64_t kv_head) {
  const LinearProblem& problem = plan.problem();
  const LinearState& state = *problem.initial_state;
  const LinearStateShape& shape = state.shape;
  const auto at = [&](int coordinate) {
    DriveAxes::Origin origin;
    if (shape.exact) {
      origin.ticks = RebasedReference(problem, plan.rows(), item, coordinate);
    } else {
      origin.real = state.reference_real[item * shape.coordinates + coordinate];
    }
    return origin;
  };
  start_ticks_ = at(0).ticks;
  start_real_ = at(0).real;
  const Encoder* encoder = plan.rows().encoder(item);
  if (encoder == nullptr) return;
  std::vector<DriveAxes::Origin> origins;
  for (const Drive& drive : encoder->sources()) {
    if (!drive.clock) {
      origins.push_back(at(drive.coordinate));
      continue;
    }
    const int64_t row = item * shape.kv_heads + kv_head;
    origins.push_back(
        {.ticks = 0,
         .real = state.reference_clock[row * shape.clock_channels +
                                       drive.clock_channel]});
  }
  axes_.SetOrigin(std::move(origins));
}

bool LinearWalk::SamePlace(int64_t i, int64_t j) const {
  for (int s = 0; s < sources(); ++s) {
    if (axes_.QueryMinusKey(s, Query(i), Key(j)) != 0) return false;
  }
  return true;
}

const float* LinearWalk::Cached(PhaseCache& cache, int64_t row, bool query) {
  const int64_t slot = row % kLinearChunk;
  float* phases = cache.rows.data() + slot * phase_floats_;
  if (cache.row[slot] != row) {
    std::copy_n(
        query ? axes_.QueryPhases(Query(row)) : axes_.KeyPhases(Key(row)),
        phase_floats_, phases);
    cache.row[slot] = row;
  }
  return phases;
}

const float* LinearWalk::KeyPhases(int64_t j) {
  return axes_.shared() ? axes_.KeyPhases(Key(j))
                        : Cached(key_phases_, j, false);
}

const float* LinearWalk::QueryPhases(int64_t i) {
  if (axes_.shared()) return axes_.QueryPhases(Query(i));
  const int64_t last = Seen(i) - 1;
  return last >= 0 && key_phases_.row[last % kLinearChunk] == last &&
                 SamePlace(i, last)
             ? KeyPhases(last)
             : Cached(query_phases_, i, true);
}

int64_t LinearWalk::SeenBackward(int64_t i) const {
  const int64_t query = Query(i);
  int64_t last = item_->end[query];
  // Keys at the query's own time belong to neither side under `strict`.
  while (strict_ && last < keys() && item_->Lag(query, last) == 0) ++last;
  return keys() - last;
}

double LinearWalk::GapBefore(int64_t j) const {
  if (j == 0 && !has_start_) return 0;
  if (item_->exact) {
    const int64_t before = j == 0 ? start_ticks_ : item_->key_ticks[j - 1];
    return unit_ * static_cast<double>(item_->key_ticks[j] - before);
  }
  const double before = j == 0 ? start_real_ : item_->key_real[j - 1];
  return unit_ * (item_->key_real[j] - before);
}

double LinearWalk::GapToQuery(int64_t i) const {
  const int64_t seen = Seen(i);
  if (seen == 0 && !has_start_) return 0;
  if (item_->exact) {
    const int64_t before =
        seen == 0 ? start_ticks_ : item_->key_ticks[seen - 1];
    return unit_ * static_cast<double>(item_->query_ticks[i] - before);
  }
  const double before = seen == 0 ? start_real_ : item_->key_real[seen - 1];
  return unit_ * (item_->query_real[i] - before);
}

}  // namespace attnd
