// Which keys a query sees, decided pair by pair as the rules of v1::Mask read.
#ifndef ATTND_CLIENT_RESOLVED_VISIBILITY_H_
#define ATTND_CLIENT_RESOLVED_VISIBILITY_H_

#include <cstdint>
#include <vector>

#include "attnd/v1/attention.pb.h"
#include "client/resolved/times.h"

namespace attnd::client::resolved {

// The sequences of a request with `batch` items of `queries` and `keys` rows.
std::vector<Sequence> SequencesOf(const v1::Mask& mask, int64_t batch,
                                  int64_t queries, int64_t keys);

// One sequence. Borrows the request and the times.
class Visibility {
 public:
  Visibility(const v1::AttendRequest& request, const Times& times,
             const Sequence& sequence, int64_t key_rows);

  // Whether the i-th query sees the j-th key of the sequence.
  bool Sees(int64_t i, int64_t j) const;
  bool ValidKey(int64_t j) const;
  // Valid keys in (time, index) order.
  const std::vector<int64_t>& order() const { return order_; }
  // Which event a row is: of valid keys, of queries, each in that order.
  int64_t KeyEvent(int64_t j) const { return rank_[j]; }
  int64_t QueryEvent(int64_t i) const { return query_rank_[i]; }

 private:
  bool InTime(const Lag& lag) const;
  bool InKeys(int64_t i, int64_t j) const;
  bool InRanges(int64_t j) const;
  bool Causal(int64_t i, int64_t j, const Lag& lag) const;

  const v1::Mask& mask_;
  const Times& times_;
  const Sequence sequence_;
  const int64_t key_rows_;
  std::vector<int64_t> order_;
  std::vector<int64_t> rank_;  // in order_, per key
  std::vector<int64_t> query_rank_;
};

}  // namespace attnd::client::resolved

#endif  // ATTND_CLIENT_RESOLVED_VISIBILITY_H_
