// One row's place on the absolute axis, and what an absolute part is.
#ifndef ATTND_KERNELS_ABSOLUTE_TIME_H_
#define ATTND_KERNELS_ABSOLUTE_TIME_H_

#include <cstdint>
#include <vector>

namespace attnd {

// As sent, not rebased: where 0 lies is part of an absolute encoding.
struct AbsoluteTime {
  bool exact = true;      // `ticks` holds the time, else `real`
  int64_t ticks = 0;      // or a position
  double real = 0;        // in the axis' own unit
  bool position = false;  // no timestamps: origins do not apply
  int64_t index = 0;      // of the row in the item, or of the event, from 0
};

// Working memory of a thread.
struct AbsoluteScratch {
  std::vector<uint64_t> phases;
  std::vector<float> cosines, sines;
  std::vector<double> embedding;
};

// One part, compiled for a head dimension. Immutable.
class AbsoluteVector {
 public:
  virtual ~AbsoluteVector() = default;
  // vector[c] += part in double, for the dimension's channels.
  virtual void AddExact(bool query, int head, const AbsoluteTime& time,
                        double* vector) const = 0;
  // The same in f32.
  virtual void AddToRow(bool query, int head, const AbsoluteTime& time,
                        AbsoluteScratch* scratch, float* row) const = 0;
  // Whether the part is defined there.
  virtual bool Covers(const AbsoluteTime&) const { return true; }
};

}  // namespace attnd

#endif  // ATTND_KERNELS_ABSOLUTE_TIME_H_
