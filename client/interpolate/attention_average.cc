#include "client/interpolate/attention_average.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/error_details.h"
#include "client/request.h"

namespace attnd::client {
namespace {

// A mean over some of the keys: `sum_log` is the log of its weights' sum.
struct PartialMean {
  double mean = 0;
  double sum_log = -std::numeric_limits<double>::infinity();

  void Merge(double other_mean, double other_log) {
    if (std::isinf(other_log) && other_log < 0) return;  // saw no key
    const double highest = std::max(sum_log, other_log);
    const double own = std::exp(sum_log - highest);
    const double other = std::exp(other_log - highest);
    mean = (own * mean + other * other_mean) / (own + other);
    sum_log = highest + std::log(own + other);
  }
};

struct Range {
  size_t begin;
  size_t end;
  size_t size() const { return end - begin; }
  size_t middle() const { return begin + size() / 2; }
};

class Averager {
 public:
  Averager(const Client& client, const AverageRule& rule,
           absl::Span<const int64_t> times_ns, absl::Span<const double> values,
           absl::Span<const int64_t> wanted_ns)
      : client_(client),
        rule_(rule),
        times_ns_(times_ns),
        values_(values),
        wanted_ns_(wanted_ns),
        means_(wanted_ns.size()) {}

  // Adds the keys of one range to the means of the queries of another.
  absl::Status Add(Range queries, Range keys) {
    absl::StatusOr<v1::AttendRequest> request = MakeRequest(queries, keys);
    if (!request.ok()) return request.status();
    absl::StatusOr<v1::AttendResponse> answer = client_.Attend(*request);
    if (answer.ok()) return Merge(*answer, queries);
    const bool too_large = absl::IsResourceExhausted(answer.status()) &&
                           !GetErrorDetails(answer.status()).retry_delay;
    if (!too_large || (queries.size() == 1 && keys.size() == 1)) {
      return answer.status();
    }
    const bool cut_queries = queries.size() >= keys.size();
    const size_t middle = cut_queries ? queries.middle() : keys.middle();
    absl::Status first = cut_queries ? Add({queries.begin, middle}, keys)
                                     : Add(queries, {keys.begin, middle});
    if (!first.ok()) return first;
    return cut_queries ? Add({middle, queries.end}, keys)
                       : Add(queries, {middle, keys.end});
  }

  std::vector<double> Means() const {
    std::vector<double> means;
    means.reserve(means_.size());
    for (const PartialMean& partial : means_) {
      means.push_back(std::isinf(partial.sum_log)
                          ? std::numeric_limits<double>::quiet_NaN()
                          : partial.mean);
    }
    return means;
  }

 private:
  absl::StatusOr<v1::Tensor> Repeated(size_t rows) const {
    const int64_t dim = static_cast<int64_t>(rule_.vector.size());
    std::vector<float> all;
    all.reserve(rows * dim);
    for (size_t i = 0; i < rows; ++i) {
      all.insert(all.end(), rule_.vector.begin(), rule_.vector.end());
    }
    return MakeTensor(all, {1, 1, static_cast<int64_t>(rows), dim});
  }

  absl::StatusOr<v1::AttendRequest> MakeRequest(Range queries,
                                                Range keys) const {
    auto query = Repeated(queries.size());
    auto key = Repeated(keys.size());
    auto value = MakeTensor(values_.subspan(keys.begin, keys.size()),
                            {1, 1, static_cast<int64_t>(keys.size()), 1});
    auto query_time =
        MakeTimeAxis(wanted_ns_.subspan(queries.begin, queries.size()),
                     v1::TICK_UNIT_NANOSECONDS);
    auto key_time = MakeTimeAxis(times_ns_.subspan(keys.begin, keys.size()),
                                 v1::TICK_UNIT_NANOSECONDS);
    for (const absl::Status& status :
         {query.status(), key.status(), value.status(), query_time.status(),
          key_time.status()}) {
      if (!status.ok()) return status;
    }
    v1::AttendRequest request;
    request.set_request_id(absl::StrCat("interpolate ", rule_.encoding,
                                        " queries ", queries.begin, " keys ",
                                        keys.begin));
    *request.mutable_query() = *std::move(query);
    *request.mutable_key() = *std::move(key);
    *request.mutable_value() = *std::move(value);
    *request.mutable_query_time() = *std::move(query_time);
    *request.mutable_key_time() = *std::move(key_time);
    request.set_encoding(rule_.encoding);
    request.set_scale(1);
    request.add_outputs(v1::OUTPUT_OUTPUT);
    request.add_outputs(v1::OUTPUT_LSE);
    if (rule_.causal) {
      request.mutable_mask()->set_causal(v1::CAUSALITY_TIME);
    } else {
      // A wanted time lies between values: both sides count alike.
      request.set_two_sided(v1::TWO_SIDED_RULE_ABSOLUTE_LAG);
    }
    return request;
  }

  absl::Status Merge(const v1::AttendResponse& answer, Range queries) {
    const absl::StatusOr<std::vector<float>> mean = ToFloats(answer.output());
    const absl::StatusOr<std::vector<float>> lse = ToFloats(answer.lse());
    if (!mean.ok() || !lse.ok() || mean->size() != queries.size() ||
        lse->size() != queries.size()) {
      return absl::InternalError(absl::StrCat(
          "the server's answer to ", queries.size(),
          " queries holds other sizes (output ", answer.output().data().size(),
          " bytes, lse ", answer.lse().data().size(), " bytes)"));
    }
    for (size_t i = 0; i < queries.size(); ++i) {
      means_[queries.begin + i].Merge((*mean)[i], (*lse)[i]);
    }
    return absl::OkStatus();
  }

  const Client& client_;
  const AverageRule& rule_;
  absl::Span<const int64_t> times_ns_;
  absl::Span<const double> values_;
  absl::Span<const int64_t> wanted_ns_;
  std::vector<PartialMean> means_;
};

}  // namespace

PieceSize LargestPieces(int64_t queries, int64_t keys, int64_t head_dim,
                        int64_t message_bytes, const v1::Limits& limits) {
  if (limits.message_bytes() > 0) {
    message_bytes = std::min(message_bytes, limits.message_bytes());
  }
  // Everything beside the arrays takes less than this.
  constexpr int64_t kFrameBytes = 4096;
  const int64_t half = std::max<int64_t>(message_bytes - kFrameBytes, 0) / 2;
  const int64_t rows =
      limits.rows() > 0 ? limits.rows() : std::numeric_limits<int64_t>::max();
  const int64_t query_bytes = 4 * head_dim + 8;
  const int64_t key_bytes = 4 * head_dim + 4 + 8;
  PieceSize piece;
  piece.key_rows = std::clamp<int64_t>(std::min({keys, rows, half / key_bytes}),
                                       1, kMaxPiecePairs);
  piece.query_rows =
      std::clamp<int64_t>(std::min({queries, rows, half / query_bytes,
                                    kMaxPiecePairs / piece.key_rows}),
                          1, kMaxPiecePairs);
  return piece;
}

absl::StatusOr<std::vector<double>> AttentionAverage(
    const Client& client, const AverageRule& rule, const PieceSize& piece,
    absl::Span<const int64_t> times_ns, absl::Span<const double> values,
    absl::Span<const int64_t> wanted_ns) {
  Averager averager(client, rule, times_ns, values, wanted_ns);
  const size_t query_rows = static_cast<size_t>(piece.query_rows);
  const size_t key_rows = static_cast<size_t>(piece.key_rows);
  for (size_t q = 0; q < wanted_ns.size(); q += query_rows) {
    for (size_t k = 0; k < times_ns.size(); k += key_rows) {
      absl::Status status =
          averager.Add({q, std::min(q + query_rows, wanted_ns.size())},
                       {k, std::min(k + key_rows, times_ns.size())});
      if (!status.ok()) return status;
    }
  }
  return averager.Means();
}

}  // namespace attnd::client
