#include "kernels/drive_axes.h"

#include <algorithm>
#include <cassert>

#include "kernels/free_places.h"

namespace attnd {
namespace {

// Channel `channel` of a clock tensor for the rows of the item's order.
std::vector<double> ClockRows(const TensorRef& clock, int64_t batch,
                              int64_t kv_head, int channel, int64_t rows,
                              const ItemGeometry& item, bool query) {
  std::vector<float> values(clock.shape().cols);
  std::vector<double> out(rows);
  for (int64_t i = 0; i < rows; ++i) {
    clock.LoadRow(batch, kv_head, query ? item.QueryRow(i) : item.KeyRow(i),
                  values.data());
    out[i] = values[channel];
  }
  return out;
}

}  // namespace

void DriveAxes::Select(const Plan& plan, int64_t number, int64_t kv_head,
                       bool keep_rows) {
  axes_.clear();
  head_ = nullptr;
  shared_ = kept_ = false;
  const Encoder* encoder = plan.encoder(number);
  if (encoder == nullptr) return;
  head_ = &encoder->head(kv_head);
  const ItemGeometry& item = plan.item(number);
  for (size_t s = 0; s < encoder->sources().size(); ++s) {
    const Drive& drive = encoder->sources()[s];
    Axis& axis = axes_.emplace_back();
    axis.unit = encoder->units_per_tick(static_cast<int>(s));
    if (drive.clock) {
      axis.kind = PhasePoint::Kind::kClock;
      axis.query.own =
          ClockRows(plan.problem().query_clock, plan.batch(number), kv_head,
                    drive.clock_channel, item.query_rows, item, true);
      axis.key.own =
          ClockRows(plan.problem().key_clock, plan.batch(number), kv_head,
                    drive.clock_channel, item.key_rows, item, false);
      axis.query.real = axis.query.own.data();
      axis.key.real = axis.key.own.data();
      continue;
    }
    const bool first = drive.coordinate == 0;
    const ItemGeometry::Coordinate* further =
        first ? nullptr : &item.further[drive.coordinate - 1];
    if (item.exact) {
      axis.query.ticks =
          (first ? item.query_ticks : further->query_ticks).data();
      axis.key.ticks = (first ? item.key_ticks : further->key_ticks).data();
    } else {
      axis.kind = PhasePoint::Kind::kReal;
      axis.query.real = (first ? item.query_real : further->query_real).data();
      axis.key.real = (first ? item.key_real : further->key_real).data();
      axis.reference = first ? item.real_reference : further->real_reference;
    }
    if (encoder->hf_fp32_angles()) axis.kind = PhasePoint::Kind::kHf;
  }
  const auto set_places = [&](int source) {
    for (const bool query : {true, false}) {
      Axis& axis = axes_[source];
      (query ? axis.query : axis.key).places = PlacesAlong(
          plan.problem(), *encoder, source, number, kv_head, item, query);
    }
  };
  for (const FreeTurn& turn : head_->free_turns()) {
    for (const int source : turn.sources) set_places(source);
  }
  for (int s = 0; s < sources(); ++s) {
    if (axes_[s].kind == PhasePoint::Kind::kHf) set_places(s);
  }
  points_.resize(head_->frequencies().size());
  shared_ = plan.shares_phases(number);
  if (shared_ && identity_ == plan.identity() && item_ == &item &&
      encoder_ == encoder) {
    kept_ = true;
    return;
  }
  if (!shared_ && !(keep_rows && plan.keeps_phases(number, kv_head))) return;
  const bool same =
      std::all_of(axes_.begin(), axes_.end(), [&](const Axis& axis) {
        return axis.SameTimes(item.query_rows, item.key_rows);
      });
  kept_ = shared_ || same;
  if (!kept_) return;
  same_times_ = same;
  identity_ = shared_ ? plan.identity() : nullptr;
  encoder_ = encoder;
  StartTables(item);
}

void DriveAxes::StartTables(const ItemGeometry& item) {
  item_ = &item;
  const auto start = [&](int64_t rows, Table& table) {
    table.rows.Reserve(phase_floats() * rows);
    table.done.assign((rows + kPhaseRows - 1) / kPhaseRows, false);
  };
  start(item.query_rows, query_table_);
  start(same_times_ ? 0 : item.key_rows, key_table_);
}

PhasePoint DriveAxes::Axis::Point(const Rows& rows, int64_t i) const {
  PhasePoint point{.kind = kind, .ticks = 0, .real = 0};
  if (kind == PhasePoint::Kind::kHf) {
    point.real = rows.places[i];
  } else if (rows.ticks != nullptr) {
    point.ticks = rows.ticks[i];
    point.real = static_cast<double>(rows.ticks[i]) * unit;
  } else {
    point.real = rows.real[i] - reference;
  }
  return point;
}

bool DriveAxes::Axis::SameTimes(int64_t queries, int64_t keys) const {
  if (queries != keys) return false;
  return query.ticks != nullptr
             ? std::equal(query.ticks, query.ticks + queries, key.ticks)
             : std::equal(query.real, query.real + queries, key.real);
}

const PhasePoint* DriveAxes::Points(bool query, int64_t row) {
  for (size_t f = 0; f < points_.size(); ++f) {
    const Axis& axis = axes_[head_->frequencies()[f].source];
    points_[f] = axis.Point(query ? axis.query : axis.key, row);
  }
  return points_.data();
}

const PhasePoint* DriveAxes::OriginPoints() {
  for (size_t f = 0; f < points_.size(); ++f) {
    const int source = head_->frequencies()[f].source;
    const Axis& axis = axes_[source];
    points_[f] = {.kind = axis.kind,
                  .ticks = origin_[source].ticks,
                  .real = origin_[source].real - axis.reference};
  }
  return points_.data();
}

void DriveAxes::MakePhases(bool query, int64_t row, int64_t count,
                           float* phases) {
  const size_t sources = points_.size();
  many_points_.resize(sources * count);
  for (int64_t r = 0; r < count; ++r) {
    std::copy_n(Points(query, row + r), sources,
                many_points_.begin() + sources * r);
  }
  PhaseRows(*head_, many_points_.data(), count, phases);
  for (int64_t r = 0; r < count; ++r) {
    MakeMatrices(query, row + r,
                 phases + phase_floats() * r + 2 * head_->table_size());
  }
}

void DriveAxes::MakeMatrices(bool query, int64_t row, float* matrices) {
  for (const FreeTurn& turn : head_->free_turns()) {
    places_.clear();
    for (const int source : turn.sources) {
      const Axis& axis = axes_[source];
      places_.push_back((query ? axis.query : axis.key).places[row]);
    }
    FreeTurnMatrix(turn, places_, matrices + turn.offset);
  }
}

void DriveAxes::Encode(RowBatch batch, int64_t first) {
  const int64_t rows = batch.rows;
  for (int64_t r = 0; r < rows; r += kPhaseRows) {
    batch.rows = std::min(kPhaseRows, rows - r);
    batch.phases = batch.head->turns()
                       ? Phases(batch.query, first + r, batch.rows)
                       : nullptr;
    EncodeRows(batch);
    batch.src += batch.rows * batch.stride;
    batch.dst += batch.rows * batch.padded;
  }
}

const float* DriveAxes::Phases(bool query, int64_t row, int64_t count) {
  const int64_t floats = phase_floats();
  if (!kept_) {
    float* phases = phases_.Reserve(floats * kPhaseRows);
    MakePhases(query, row, count, phases);
    return phases;
  }
  Table& table = query || same_times_ ? query_table_ : key_table_;
  const int64_t all = query ? item_->query_rows : item_->key_rows;
  for (int64_t b = row / kPhaseRows; b * kPhaseRows < row + count; ++b) {
    assert(b < static_cast<int64_t>(table.done.size()));
    if (table.done[b]) continue;
    const int64_t first = b * kPhaseRows;
    MakePhases(query, first, std::min(kPhaseRows, all - first),
               table.rows.data() + floats * first);
    table.done[b] = true;
  }
  return table.rows.data() + floats * row;
}

}  // namespace attnd
