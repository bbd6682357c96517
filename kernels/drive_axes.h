// Where the rows of one item and kv head stand along everything that drives an
// encoding: coordinates of the time axis and learned clocks.
#ifndef ATTND_KERNELS_DRIVE_AXES_H_
#define ATTND_KERNELS_DRIVE_AXES_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/encoder.h"
#include "kernels/phase_rows.h"
#include "kernels/plan.h"
#include "kernels/rotation.h"
#include "kernels/tensor.h"

namespace attnd {

// Rows whose phases are made together.
inline constexpr int64_t kPhaseRows = 16;

// Borrows from the plan. Differences of int64 ticks are exact (rule N1).
class DriveAxes {
 public:
  // `keep_rows`: also phase rows that no other head shares are kept until the
  // next call, where that lets keys take those of queries.
  void Select(const Plan& plan, int64_t item, int64_t kv_head, bool keep_rows);

  // Whether heads share phase rows, which then last as long as the item.
  bool shared() const { return shared_; }
  // Floats of a phase row; 0 without an encoding.
  int64_t phase_floats() const {
    return head_ == nullptr ? 0 : head_->phase_floats();
  }

  int sources() const { return static_cast<int>(axes_.size()); }

  // Phase row of a query or key of the item's order (rotation.h): cosines
  // [table_size], then sines, then the matrices of free turns. Valid until the
  // next call.
  const float* QueryPhases(int64_t i) { return Phases(true, i, 1); }
  const float* KeyPhases(int64_t j) { return Phases(false, j, 1); }
  // EncodeRows (rotation.h) of the batch's rows, the first of them row `first`
  // of the item's order, kPhaseRows at a time. `batch.phases` is not read;
  // scratch takes kPhaseRows rows.
  void Encode(RowBatch batch, int64_t first);

  // The same places, as PhaseRows wants them; valid until the next call.
  const PhasePoint* QueryPoints(int64_t i) { return Points(true, i); }
  const PhasePoint* KeyPoints(int64_t j) { return Points(false, j); }
  // A place before all rows, one per source: rebased ticks as the item's, or
  // the real time or clock as sent.
  struct Origin {
    int64_t ticks = 0;
    double real = 0;
  };
  void SetOrigin(std::vector<Origin> origin) { origin_ = std::move(origin); }
  const PhasePoint* OriginPoints();
  double QueryMinusOrigin(int source, int64_t i) const {
    return axes_[source].FromOrigin(axes_[source].query, i, origin_[source]);
  }
  double KeyMinusOrigin(int source, int64_t j) const {
    return axes_[source].FromOrigin(axes_[source].key, j, origin_[source]);
  }

  // Differences in units along a source: first minus second.
  double QueryMinusKey(int source, int64_t i, int64_t j) const {
    return axes_[source].Difference(axes_[source].query, i, axes_[source].key,
                                    j);
  }
  double KeyMinusKey(int source, int64_t a, int64_t b) const {
    return axes_[source].Difference(axes_[source].key, a, axes_[source].key, b);
  }
  double QueryMinusQuery(int source, int64_t a, int64_t b) const {
    return axes_[source].Difference(axes_[source].query, a, axes_[source].query,
                                    b);
  }

  int64_t scratch_bytes() const {
    return static_cast<int64_t>(sizeof(float)) *
           (query_table_.rows.capacity() + key_table_.rows.capacity() +
            phases_.capacity());
  }

 private:
  struct Rows {
    const int64_t* ticks = nullptr;
    const double* real = nullptr;
    std::vector<double> own;  // of a clock
    // In units from 0: of free turns and of float32 angles.
    std::vector<double> places;
  };
  struct Axis {
    PhasePoint::Kind kind = PhasePoint::Kind::kTicks;
    Rows query, key;
    double unit = 1;
    double reference = 0;

    double Difference(const Rows& a, int64_t i, const Rows& b,
                      int64_t j) const {
      return unit * (a.ticks != nullptr
                         ? static_cast<double>(a.ticks[i] - b.ticks[j])
                         : a.real[i] - b.real[j]);
    }
    double FromOrigin(const Rows& a, int64_t i, const Origin& from) const {
      return unit * (a.ticks != nullptr
                         ? static_cast<double>(a.ticks[i] - from.ticks)
                         : a.real[i] - from.real);
    }
    PhasePoint Point(const Rows& rows, int64_t i) const;
    bool SameTimes(int64_t queries, int64_t keys) const;
  };
  // Phase rows of an item: of all its heads where they share them, else of one.
  struct Table {
    AlignedBuffer rows;
    std::vector<bool> done;  // per kPhaseRows rows
  };
  void StartTables(const ItemGeometry& item);
  const float* Phases(bool query, int64_t row, int64_t count);
  void MakePhases(bool query, int64_t row, int64_t count, float* phases);
  void MakeMatrices(bool query, int64_t row, float* matrices);
  const PhasePoint* Points(bool query, int64_t row);

  const HeadEncoder* head_ = nullptr;
  std::vector<Axis> axes_;
  std::vector<PhasePoint> points_, many_points_;
  std::vector<double> places_;
  std::vector<Origin> origin_;
  std::shared_ptr<const void> identity_;  // of the plan that the tables are of
  const ItemGeometry* item_ = nullptr;
  const Encoder* encoder_ = nullptr;
  bool shared_ = false;
  bool kept_ = false;        // in the tables
  bool same_times_ = false;  // of the tables: queries stand where the keys do
  Table query_table_, key_table_;
  AlignedBuffer phases_;  // of the rows asked for, where none are kept
};

}  // namespace attnd

#endif  // ATTND_KERNELS_DRIVE_AXES_H_
