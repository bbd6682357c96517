// The absolute parts of an encoding: vectors added to rows of q and k as a
// function of the row's own time, before everything else.
#ifndef ATTND_KERNELS_ABSOLUTE_H_
#define ATTND_KERNELS_ABSOLUTE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/absolute_time.h"
#include "kernels/clock.h"
#include "kernels/encoding_spec.h"

namespace attnd {

// Each trigonometric channel of amplitude 1 is within this of exact.
inline constexpr double kAbsoluteError = 1e-7;

// Immutable; thread-safe.
class Absolute {
 public:
  // `heads` is the number of kv heads; embeddings per head are per kv head.
  // INVALID_ARGUMENT with the path below "absolutes[i]" when a part is invalid
  // or does not fit the sizes.
  static absl::StatusOr<std::shared_ptr<const Absolute>> Compile(
      const std::vector<AbsolutePart>& parts, int head_dim, int heads,
      const TickRatio& ratio);

  bool empty() const { return parts_.empty(); }
  // Some rows may lie where a part is not defined: Check is needed.
  bool bounded() const { return bounded_; }

  // INVALID_ARGUMENT unless every part is defined at every time (those of valid
  // rows): names `field`, the first such element, its time, the part, and how
  // many there are.
  absl::Status Check(bool query, absl::Span<const AbsoluteTime> times,
                     absl::string_view field) const;

  // vector[c] = sum of the parts, c < head_dim, in double.
  void Exact(bool query, int head, const AbsoluteTime& time,
             double* vector) const;
  // row[c] += sum of the parts at a time that Check accepts.
  void AddToRow(bool query, int head, const AbsoluteTime& time,
                AbsoluteScratch* scratch, float* row) const;

 private:
  struct Part {
    std::unique_ptr<AbsoluteVector> vector;
    bool on_query = true, on_key = true;
    std::string place;  // "absolutes[0]: a table of 8 rows ..."
  };
  Absolute() = default;

  int dim_ = 0;
  std::vector<Part> parts_;
  bool bounded_ = false;
};

}  // namespace attnd

#endif  // ATTND_KERNELS_ABSOLUTE_H_
