// Everything about one query and one key that an encoding looks at.
#ifndef ATTND_CLIENT_RESOLVED_PAIR_H_
#define ATTND_CLIENT_RESOLVED_PAIR_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "attnd/v1/attention.pb.h"
#include "client/resolved/arrays.h"
#include "client/resolved/generator.h"
#include "client/resolved/times.h"

namespace attnd::client::resolved {

// The units of an encoding against the ticks of a request. Borrows both.
class Units {
 public:
  Units(const v1::ResolvedEncoding& encoding, const Times& times)
      : encoding_(encoding), times_(times) {}

  // A lag of a coordinate in units.
  DoubleDouble In(const Lag& lag, int coordinate = 0) const;

 private:
  const v1::ResolvedEncoding& encoding_;
  const Times& times_;
};

// Distances along every drive of pairs of one sequence and kv head. Borrows its
// arguments.
class PairLags {
 public:
  PairLags(const v1::ResolvedEncoding& encoding, const Times& times,
           const Sequence& sequence, const Array& query_clock,
           const Array& key_clock);

  void Select(int64_t kv_head, int64_t i, int64_t j) {
    kv_head_ = kv_head;
    i_ = i;
    j_ = j;
    keys_ = false;
  }
  // The pair of two keys, the first in place of the query.
  void SelectKeys(int64_t kv_head, int64_t later, int64_t earlier) {
    Select(kv_head, later, earlier);
    keys_ = true;
  }
  double UnitsAlong(const Drive& drive) const;
  double Angle(double frequency, const Drive& drive) const;
  double QueryPosition(const Drive& drive) const;
  double KeyPosition(const Drive& drive) const;

 private:
  Lag Between(int coordinate) const;
  double Clock(bool query, const Drive& drive) const;

  const Units units_;
  const Times& times_;
  const Sequence sequence_;
  const Array &query_clock_, &key_clock_;
  const bool hf_fp32_;
  int64_t kv_head_ = 0, i_ = 0, j_ = 0;
  bool keys_ = false;
};

}  // namespace attnd::client::resolved

#endif  // ATTND_CLIENT_RESOLVED_PAIR_H_
