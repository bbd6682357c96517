#include "client/resolved/visibility.h"

#include <algorithm>
#include <numeric>

namespace attnd::client::resolved {
namespace {

bool Earlier(const Times& times, const Lag& lag) {
  return times.exact() ? lag.ticks < 0 : lag.precise.high < 0;
}

// ranks[order[n]] = n.
void SetRanks(const std::vector<int64_t>& order, std::vector<int64_t>& ranks) {
  for (size_t n = 0; n < order.size(); ++n) {
    ranks[order[n]] = static_cast<int64_t>(n);
  }
}

}  // namespace

std::vector<Sequence> SequencesOf(const v1::Mask& mask, int64_t batch,
                                  int64_t queries, int64_t keys) {
  std::vector<Sequence> sequences;
  if (mask.key_offsets_size() > 0) {
    for (int n = 0; n + 1 < mask.key_offsets_size(); ++n) {
      Sequence s;
      s.first_query = mask.query_offsets(n);
      s.queries = mask.query_offsets(n + 1) - s.first_query;
      s.first_key = mask.key_offsets(n);
      s.keys = mask.key_offsets(n + 1) - s.first_key;
      sequences.push_back(s);
    }
    return sequences;
  }
  for (int64_t b = 0; b < batch; ++b) {
    Sequence s;
    s.batch = b;
    s.queries = mask.query_lengths().empty()
                    ? queries
                    : mask.query_lengths(static_cast<int>(b));
    s.keys = mask.key_lengths().empty() ? keys
                                        : mask.key_lengths(static_cast<int>(b));
    sequences.push_back(s);
  }
  return sequences;
}

Visibility::Visibility(const v1::AttendRequest& request, const Times& times,
                       const Sequence& sequence, int64_t key_rows)
    : mask_(request.mask()),
      times_(times),
      sequence_(sequence),
      key_rows_(key_rows),
      rank_(sequence.keys, 0),
      query_rank_(sequence.queries, 0) {
  for (int64_t j = 0; j < sequence.keys; ++j) {
    if (ValidKey(j)) order_.push_back(j);
  }
  std::stable_sort(order_.begin(), order_.end(), [&](int64_t a, int64_t b) {
    return Earlier(times, times.KeyMinusKey(sequence, a, b));
  });
  SetRanks(order_, rank_);
  std::vector<int64_t> queries(sequence.queries);
  std::iota(queries.begin(), queries.end(), int64_t{0});
  std::stable_sort(queries.begin(), queries.end(), [&](int64_t a, int64_t b) {
    return Earlier(times, times.QueryMinusQuery(sequence, a, b));
  });
  SetRanks(queries, query_rank_);
}

bool Visibility::ValidKey(int64_t j) const {
  return mask_.key_validity().empty() ||
         mask_.key_validity()[sequence_.batch * key_rows_ +
                              sequence_.first_key + j] != 0;
}

bool Visibility::InTime(const Lag& lag) const {
  if (times_.exact()) {
    return (!mask_.has_past_ticks() || lag.ticks <= mask_.past_ticks()) &&
           (!mask_.has_future_ticks() ||
            -lag.ticks <= static_cast<__int128>(mask_.future_ticks()));
  }
  return (!mask_.has_past_time() || lag.real <= mask_.past_time()) &&
         (!mask_.has_future_time() || -lag.real <= mask_.future_time());
}

// The query stands behind the last key that is not later than it.
bool Visibility::InKeys(int64_t i, int64_t j) const {
  if (!mask_.has_past_keys() && !mask_.has_future_keys()) return true;
  const auto place =
      std::partition_point(order_.begin(), order_.end(), [&](int64_t key) {
        return !Earlier(times_, times_.QueryMinusKey(sequence_, i, key));
      });
  const int64_t at = place - order_.begin();
  if (rank_[j] < at) {
    return !mask_.has_past_keys() || at - rank_[j] <= mask_.past_keys();
  }
  return !mask_.has_future_keys() || rank_[j] - at < mask_.future_keys();
}

bool Visibility::InRanges(int64_t j) const {
  if (mask_.key_ranges().empty()) return true;
  const Lag time = times_.Key(sequence_, j);
  return std::any_of(mask_.key_ranges().begin(), mask_.key_ranges().end(),
                     [&](const v1::TimeRange& range) {
                       return times_.exact()
                                  ? range.begin_ticks() <= time.ticks &&
                                        time.ticks <= range.end_ticks()
                                  : range.begin_time() <= time.real &&
                                        time.real <= range.end_time();
                     });
}

bool Visibility::Causal(int64_t i, int64_t j, const Lag& lag) const {
  if (mask_.causal() == v1::CAUSALITY_TIME) {
    if (Earlier(times_, lag)) return false;
    return !mask_.strict() || lag.ticks != 0 || lag.real != 0;
  }
  if (mask_.causal() != v1::CAUSALITY_INDEX) return true;
  const int64_t last = i + sequence_.keys - sequence_.queries;
  return mask_.strict() ? j < last : j <= last;
}

bool Visibility::Sees(int64_t i, int64_t j) const {
  if (i >= sequence_.queries || j >= sequence_.keys) return false;
  if (!ValidKey(j) || !InRanges(j)) return false;
  if (rank_[j] < mask_.prefix()) return true;
  const Lag lag = times_.QueryMinusKey(sequence_, i, j);
  return Causal(i, j, lag) && InTime(lag) && InKeys(i, j);
}

}  // namespace attnd::client::resolved
