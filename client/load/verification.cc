#include "client/load/verification.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "client/random.h"
#include "client/request.h"
#include "proto/wire.h"

namespace attnd::client {
namespace {

struct Sizes {
  int64_t batch, heads, rows, dim;
};

Sizes SizesOf(const v1::Tensor& tensor) {
  const bool blhd = tensor.layout() == v1::LAYOUT_BLHD;
  return {tensor.shape(0), tensor.shape(blhd ? 2 : 1),
          tensor.shape(blhd ? 1 : 2), tensor.shape(3)};
}

// Valid keys of each item or packed sequence.
std::vector<int64_t> KeyCounts(const v1::AttendRequest& request) {
  const v1::Mask& mask = request.mask();
  if (mask.key_offsets_size() > 1) {
    std::vector<int64_t> counts;
    for (int i = 1; i < mask.key_offsets_size(); ++i) {
      counts.push_back(mask.key_offsets(i) - mask.key_offsets(i - 1));
    }
    return counts;
  }
  if (mask.key_lengths_size() > 0) {
    return {mask.key_lengths().begin(), mask.key_lengths().end()};
  }
  const Sizes key = SizesOf(request.key());
  return std::vector<int64_t>(key.batch, key.rows);
}

absl::StatusOr<v1::ResolvedEncoding> Resolve(const v1::AttendRequest& request,
                                             int64_t length,
                                             const Client& client) {
  v1::ListEncodingsRequest list;
  list.add_names(request.encoding());
  list.set_head_dim(static_cast<int32_t>(SizesOf(request.query()).dim));
  list.set_query_heads(static_cast<int32_t>(SizesOf(request.query()).heads));
  list.set_kv_heads(static_cast<int32_t>(SizesOf(request.key()).heads));
  list.set_length(static_cast<int32_t>(length));
  auto answer = client.ListEncodings(list);
  if (!answer.ok()) return answer.status();
  if (answer->encodings_size() != 1) {
    return absl::InternalError(absl::StrCat("the server lists no encoding '",
                                            request.encoding(), "'"));
  }
  if (!answer->encodings(0).misfit().empty()) {
    return absl::InvalidArgumentError(answer->encodings(0).misfit());
  }
  return answer->encodings(0);
}

bool Wants(const v1::AttendRequest& request, v1::Output output) {
  return std::find(request.outputs().begin(), request.outputs().end(),
                   output) != request.outputs().end();
}

// Rows within the budget; empty = all of them.
std::vector<int64_t> ChooseRows(const v1::AttendRequest& request) {
  const Sizes query = SizesOf(request.query());
  const auto of_a_row = static_cast<double>(
      query.batch * query.heads * SizesOf(request.key()).rows *
      std::max<int64_t>(query.dim / 2, 1));
  const double of_all = of_a_row * static_cast<double>(query.rows);
  if (of_all <= (Wants(request, v1::OUTPUT_KEY_MASS) ? kReferencePairsOfSums
                                                     : kReferencePairs)) {
    return {};
  }
  const auto most = static_cast<int64_t>(
      std::max(2.0, kReferencePairs / std::max(of_a_row, 1.0)));
  if (most >= query.rows) return {};
  Random random(1);
  std::set<int64_t> rows = {0, query.rows - 1};
  while (static_cast<int64_t>(rows.size()) < most) {
    rows.insert(static_cast<int64_t>(random.Below(query.rows)));
  }
  return {rows.begin(), rows.end()};
}

// Half an ulp of a stored value.
double Rounding(v1::DType dtype, double value) {
  switch (dtype) {
    case v1::DTYPE_BF16:
      return std::abs(value) * 0x1p-8;
    case v1::DTYPE_F16:
      return std::abs(value) * 0x1p-11 + 0x1p-25;
    default:
      return 0;
  }
}

// -sum w ln w of each row.
std::vector<double> Entropies(const resolved::Answer& reference) {
  std::vector<double> entropies(reference.lse.size());
  for (size_t r = 0; r < entropies.size(); ++r) {
    for (int64_t j = 0; j < reference.keys; ++j) {
      const double w = reference.weights[r * reference.keys + j];
      if (w > 0) entropies[r] -= w * std::log(w);
    }
  }
  return entropies;
}

// One output of an answer beside the reference's.
class Comparison {
 public:
  Comparison(const v1::AttendRequest& request,
             const resolved::Answer& reference)
      : query_(SizesOf(request.query())), reference_(reference) {}

  double largest() const { return largest_; }

  // `columns` values for each row, `expected` and `bound` by row of the
  // reference.
  absl::Status Compare(const char* name, const v1::Tensor& tensor,
                       int64_t columns, const std::vector<double>& expected,
                       absl::FunctionRef<double(int64_t r, int64_t c)> bound) {
    const auto values = Values(
        name, tensor, query_.batch * query_.heads * query_.rows * columns);
    if (!values.ok()) return values.status();
    const bool blhd =
        tensor.shape_size() == 4 && tensor.layout() == v1::LAYOUT_BLHD;
    const auto rows = static_cast<int64_t>(reference_.rows.size());
    for (int64_t r = 0; r < query_.batch * query_.heads * rows; ++r) {
      const int64_t b = r / rows / query_.heads;
      const int64_t h = r / rows % query_.heads;
      const int64_t i = reference_.rows[r % rows];
      const int64_t at = blhd ? (b * query_.rows + i) * query_.heads + h
                              : (b * query_.heads + h) * query_.rows + i;
      for (int64_t c = 0; c < columns; ++c) {
        Add((*values)[at * columns + c], expected[r * columns + c], bound(r, c),
            tensor.dtype());
      }
    }
    return absl::OkStatus();
  }

  // The sums over queries of the weights that each key received, `bound` being
  // of the weights of a row.
  absl::Status CompareKeyMass(const v1::Tensor& tensor,
                              absl::FunctionRef<double(int64_t r)> bound) {
    const int64_t keys = reference_.keys;
    const auto values =
        Values("key_mass", tensor, query_.batch * query_.heads * keys);
    if (!values.ok()) return values.status();
    const auto rows = static_cast<int64_t>(reference_.rows.size());
    const auto unchecked = static_cast<double>(query_.rows - rows);
    for (int64_t at = 0; at < query_.batch * query_.heads * keys; ++at) {
      double least = 0, allowed = 0;
      for (int64_t r = at / keys * rows; r < (at / keys + 1) * rows; ++r) {
        const int64_t pair = r * keys + at % keys;
        if (std::isinf(reference_.scores[pair])) continue;  // adds exactly 0
        least += reference_.weights[pair];
        allowed += bound(r);
      }
      const double value = (*values)[at];
      Add(value, std::clamp(value, least, least + unchecked), allowed,
          tensor.dtype());
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<std::vector<float>> Values(const char* name,
                                            const v1::Tensor& tensor,
                                            int64_t count) {
    absl::StatusOr<std::vector<float>> values = ToFloats(tensor);
    if (values.ok() && static_cast<int64_t>(values->size()) != count) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": ", values->size(), " values of shape ",
                       wire::ShapeText(tensor.shape()), ", expected ", count));
    }
    return values;
  }

  void Add(double value, double expected, double bound, v1::DType dtype) {
    if (value == expected) return;  // infinities too
    const double error = std::abs(value - expected);
    const double share = error / (bound + Rounding(dtype, expected));
    largest_ = std::isnan(share) ? std::numeric_limits<double>::infinity()
                                 : std::max(largest_, share);
  }

  Sizes query_;
  const resolved::Answer& reference_;
  double largest_ = 0;
};

}  // namespace

absl::StatusOr<resolved::Answer> Reference(const v1::AttendRequest& request,
                                           const Client& client) {
  std::vector<v1::ResolvedEncoding> encodings;
  if (!request.encoding().empty()) {
    const std::vector<int64_t> counts = KeyCounts(request);
    auto first = Resolve(request, counts.empty() ? 0 : counts[0], client);
    if (!first.ok()) return first.status();
    encodings.push_back(*std::move(first));
    for (size_t i = 1; encodings[0].length_dependent() && i < counts.size();
         ++i) {
      auto next = Resolve(request, counts[i], client);
      if (!next.ok()) return next.status();
      encodings.push_back(*std::move(next));
    }
  }
  std::vector<const v1::ResolvedEncoding*> pointers;
  for (const v1::ResolvedEncoding& encoding : encodings) {
    pointers.push_back(&encoding);
  }
  return resolved::Attention(request, pointers, ChooseRows(request));
}

absl::StatusOr<double> ErrorShare(const v1::AttendRequest& request,
                                  const v1::AttendResponse& answer,
                                  const resolved::Answer& reference) {
  Comparison comparison(request, reference);
  const bool bf16 = answer.stats().compute() == v1::COMPUTE_PRECISION_BF16;
  const double outputs =
      bf16 ? resolved::kBf16OutputAccuracy / resolved::kAccuracy : 1;
  const double logits =
      bf16 ? resolved::kBf16Accuracy / resolved::kAccuracy : 1;
  const auto output = [&](int64_t r, int64_t c) {
    return outputs * resolved::OutputBound(reference, r, c);
  };
  const auto logit = [&](int64_t r, int64_t) {
    return logits * resolved::LogitBound(reference, r);
  };
  const auto entropy = [&](int64_t r, int64_t) {
    return logits * resolved::kEntropyAccuracy / resolved::kAccuracy *
           resolved::LogitBound(reference, r);
  };
  absl::Status status;
  for (int wanted : request.outputs()) {
    if (!status.ok()) break;
    switch (wanted) {
      case v1::OUTPUT_OUTPUT:
        status =
            comparison.Compare("output", answer.output(), reference.channels,
                               reference.output, output);
        break;
      case v1::OUTPUT_LSE:
        status =
            comparison.Compare("lse", answer.lse(), 1, reference.lse, logit);
        break;
      case v1::OUTPUT_SCORES:
        status = comparison.Compare("scores", answer.scores(), reference.keys,
                                    reference.scores, logit);
        break;
      case v1::OUTPUT_WEIGHTS:
        status = comparison.Compare("weights", answer.weights(), reference.keys,
                                    reference.weights, logit);
        break;
      case v1::OUTPUT_ENTROPY:
        status = comparison.Compare("entropy", answer.entropy(), 1,
                                    Entropies(reference), entropy);
        break;
      case v1::OUTPUT_KEY_MASS:
        status = comparison.CompareKeyMass(
            answer.key_mass(), [&](int64_t r) { return logit(r, 0); });
        break;
      default:
        break;
    }
  }
  if (!status.ok()) return status;
  return comparison.largest();
}

}  // namespace attnd::client
