#include "kernels/absolute_rows.h"

#include <vector>

namespace attnd {
namespace {

AbsoluteTime Place(const TimeAxis& axis, int64_t batch, int64_t row,
                   int64_t position) {
  AbsoluteTime time;
  time.index = row;
  switch (axis.kind()) {
    case TimeAxis::Kind::kPositions:
      time.ticks = position;
      time.position = true;
      break;
    case TimeAxis::Kind::kTicks:
      time.ticks = axis.Ticks(batch, row);
      break;
    case TimeAxis::Kind::kReal:
      time.exact = false;
      time.real = axis.Real(batch, row);
      break;
  }
  return time;
}

int64_t Length(absl::Span<const int64_t> lengths, int64_t batch, int64_t rows) {
  return lengths.empty() ? rows : lengths[batch];
}

}  // namespace

AbsoluteTime QueryPlace(const AttentionProblem& problem, int64_t batch,
                        int64_t row) {
  const int64_t shift =
      Length(problem.mask.key_lengths, batch, problem.key.shape().rows) -
      Length(problem.mask.query_lengths, batch, problem.query.shape().rows);
  return Place(problem.query_time, batch, row, shift + row);
}

AbsoluteTime KeyPlace(const AttentionProblem& problem, int64_t batch,
                      int64_t row) {
  return Place(problem.key_time, batch, row, row);
}

absl::Status CheckAbsoluteRows(const AttentionProblem& problem,
                               const Encoder& encoder, const ItemGeometry& item,
                               int64_t batch) {
  if (!encoder.absolute().bounded()) return absl::OkStatus();
  std::vector<AbsoluteTime> times;
  for (int64_t i = 0; i < item.query_rows; ++i) {
    times.push_back(QueryPlace(problem, batch, item.QueryRow(i)));
  }
  absl::Status status = encoder.absolute().Check(true, times, "query_time");
  if (!status.ok()) return status;
  times.clear();
  for (int64_t j = 0; j < item.key_rows; ++j) {
    times.push_back(KeyPlace(problem, batch, item.KeyRow(j)));
  }
  return encoder.absolute().Check(false, times, "key_time");
}

}  // namespace attnd
