// What a request will cost a worker: the one predictor that admission, Estimate
// and the scaling metric share.
#ifndef ATTND_SERVER_COST_MODEL_H_
#define ATTND_SERVER_COST_MODEL_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/gemm.h"
#include "kernels/linear_plan.h"
#include "kernels/plan.h"

namespace attnd::server {

// Amounts of work that add up to a cost.
struct Work {
  double requests = 0;  // 1: memory for the reply, caches that others used
  double units = 0;
  double flops = 0;  // of the matrix products
  double pairs = 0;  // of a query and a key, over all query heads
  // Of 64 keys that a tile of up to 128 queries meets: calls of the library.
  double blocks = 0;
  double rows = 0;   // of q and k over their heads, seen or not
  double bytes = 0;  // of the request
  double reply_bytes = 0;
  // Elements of rows whose place an encoding looks at: of q and k once where
  // heads share it. And pairs that get a bias.
  double encoded = 0;
  double biased = 0;
  // Of rows that the linear kind encodes, decays and sums up, besides their
  // products; those of held keys count more often.
  double elements = 0;
};

// Of a block in whole tiles.
inline constexpr double kPairsPerBlock = kMaxTileRows * kKeyBlock;

// Bytes of messages.
struct MessageBytes {
  int64_t request = 0, reply = 0;
};

Work WorkOf(const Plan& plan, const MessageBytes& bytes);

// What a row of the linear kind costs whatever its channels, as elements.
inline constexpr int64_t kLinearRowElements = 32;

// Of a plan of the linear kind, and the elements to add for merging so many
// states before it.
Work WorkOf(const LinearPlan& plan, const MessageBytes& bytes);
double MergedElements(const LinearPlan& plan, size_t states);

// The sum over all amounts of Work, each at its own rate. Immutable;
// thread-safe.
class CostModel {
 public:
  struct Rates {
    double seconds_per_request = 0;
    double seconds_per_unit = 0;
    double seconds_per_flop = 0;
    double seconds_per_pair = 0;
    double seconds_per_block = 0;
    double seconds_per_row = 0;
    double seconds_per_byte = 0;
    double seconds_per_reply_byte = 0;
    double seconds_per_encoded = 0;
    double seconds_per_biased = 0;
    double seconds_per_element = 0;
  };
  // What one term of the sum multiplies.
  struct Term {
    double Work::*amount;
    double Rates::*rate;
    bool fixed;  // whatever the encoding does
  };
  static constexpr std::array<Term, 11> kTerms = {{
      {&Work::requests, &Rates::seconds_per_request, true},
      {&Work::units, &Rates::seconds_per_unit, true},
      {&Work::flops, &Rates::seconds_per_flop, false},
      {&Work::pairs, &Rates::seconds_per_pair, false},
      {&Work::blocks, &Rates::seconds_per_block, false},
      {&Work::rows, &Rates::seconds_per_row, false},
      {&Work::bytes, &Rates::seconds_per_byte, false},
      {&Work::reply_bytes, &Rates::seconds_per_reply_byte, false},
      {&Work::encoded, &Rates::seconds_per_encoded, false},
      {&Work::biased, &Rates::seconds_per_biased, false},
      {&Work::elements, &Rates::seconds_per_element, false},
  }};
  // Seconds, term by term.
  using Parts = std::array<double, kTerms.size()>;

  explicit CostModel(const Rates& rates) : rates_(rates) {}

  // Worker seconds.
  double Predict(const Work& work) const;
  Parts PartsOf(const Work& work) const;
  const Rates& rates() const { return rates_; }
  // Of one worker on f32 attention with D = 64, FLOP/s.
  double flops_per_second() const;

 private:
  Rates rates_;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_COST_MODEL_H_
