#include "client/merge.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/request.h"
#include "proto/wire.h"

namespace attnd::client {
namespace {

// The parts' numbers, and where the row of an lse lies in an output.
struct Parts {
  std::vector<std::vector<float>> outputs, lses;
  int64_t heads = 0, queries = 0, dim = 0;
  bool blhd = false;

  int64_t OutputRow(int64_t row) const {
    if (!blhd) return row;
    const int64_t query = row % queries, head = row / queries % heads;
    return (row / queries / heads * queries + query) * heads + head;
  }
};

absl::Status CheckPart(const v1::AttendResponse& part,
                       const v1::AttendResponse& first, size_t number) {
  const std::string where = absl::StrCat("parts[", number, "]");
  if (!part.has_output() || !part.has_lse()) {
    return absl::InvalidArgumentError(absl::StrCat(
        where, ": ask for outputs OUTPUT and LSE to merge answers"));
  }
  const auto same = [](const v1::Tensor& a, const v1::Tensor& b) {
    return a.dtype() == b.dtype() && a.layout() == b.layout() &&
           std::equal(a.shape().begin(), a.shape().end(), b.shape().begin(),
                      b.shape().end());
  };
  if (same(part.output(), first.output()) && same(part.lse(), first.lse())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": ", wire::DTypeText(part.output().dtype()), " ",
                   wire::ShapeText(part.output().shape()), " beside ",
                   wire::DTypeText(first.output().dtype()), " ",
                   wire::ShapeText(first.output().shape()), " of parts[0]"));
}

absl::StatusOr<Parts> ReadParts(absl::Span<const v1::AttendResponse> parts) {
  Parts out;
  for (size_t n = 0; n < parts.size(); ++n) {
    absl::Status status = CheckPart(parts[n], parts[0], n);
    if (!status.ok()) return status;
    absl::StatusOr<std::vector<float>> output = ToFloats(parts[n].output());
    if (!output.ok()) return output.status();
    absl::StatusOr<std::vector<float>> lse = ToFloats(parts[n].lse());
    if (!lse.ok()) return lse.status();
    out.outputs.push_back(*std::move(output));
    out.lses.push_back(*std::move(lse));
  }
  const v1::Tensor& output = parts[0].output();
  if (output.shape_size() != 4) {
    return absl::InvalidArgumentError("parts[0]: output without four axes");
  }
  out.blhd = output.layout() == v1::LAYOUT_BLHD;
  out.heads = output.shape(out.blhd ? 2 : 1);
  out.queries = output.shape(out.blhd ? 1 : 2);
  out.dim = output.shape(3);
  if (out.lses[0].size() * static_cast<size_t>(out.dim) !=
      out.outputs[0].size()) {
    return absl::InvalidArgumentError("parts[0]: lse does not fit the output");
  }
  return out;
}

absl::StatusOr<v1::Tensor> Output(const std::vector<float>& values,
                                  const v1::Tensor& like) {
  switch (like.dtype()) {
    case v1::DTYPE_BF16:
      return MakeBf16Tensor(values, like.shape(), like.layout());
    case v1::DTYPE_F16:
      return MakeF16Tensor(values, like.shape(), like.layout());
    default:
      return MakeTensor(values, like.shape(), like.layout());
  }
}

}  // namespace

absl::StatusOr<v1::AttendResponse> MergePartial(
    absl::Span<const v1::AttendResponse> parts) {
  if (parts.empty()) {
    return absl::InvalidArgumentError("parts: none, expected at least one");
  }
  const absl::StatusOr<Parts> read = ReadParts(parts);
  if (!read.ok()) return read.status();
  std::vector<float> output(read->outputs[0].size());
  std::vector<float> lse(read->lses[0].size());
  std::vector<double> sums(static_cast<size_t>(read->dim));
  for (size_t r = 0; r < lse.size(); ++r) {
    double max = -HUGE_VAL, sum = 0;
    for (const auto& part : read->lses) max = std::max<double>(max, part[r]);
    std::fill(sums.begin(), sums.end(), 0.0);
    const int64_t first = read->OutputRow(static_cast<int64_t>(r)) * read->dim;
    for (size_t n = 0; n < parts.size(); ++n) {
      if (read->lses[n][r] == -HUGE_VALF) continue;  // saw no key
      const double weight = std::exp(read->lses[n][r] - max);
      sum += weight;
      for (size_t c = 0; c < sums.size(); ++c) {
        sums[c] += weight * read->outputs[n][first + c];
      }
    }
    lse[r] = static_cast<float>(max + std::log(sum));
    for (size_t c = 0; c < sums.size(); ++c) {
      output[first + c] = sum == 0 ? 0 : static_cast<float>(sums[c] / sum);
    }
  }
  absl::StatusOr<v1::Tensor> tensor = Output(output, parts[0].output());
  if (!tensor.ok()) return tensor.status();
  v1::AttendResponse merged;
  *merged.mutable_output() = *std::move(tensor);
  tensor = MakeTensor(lse, parts[0].lse().shape());
  if (!tensor.ok()) return tensor.status();
  *merged.mutable_lse() = *std::move(tensor);
  return merged;
}

}  // namespace attnd::client
