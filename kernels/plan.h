// START HERE: a checked attention problem, cut into independent units of work.
//
// Describe (AttentionProblem) -> check (Plan::Make) -> run (attention.h). Only
// Plan::Make can make a Plan, so nothing below it checks shapes again. Plans
// own no threads: whoever calls decides who runs the units.
#ifndef ATTND_KERNELS_PLAN_H_
#define ATTND_KERNELS_PLAN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/clock.h"
#include "kernels/encoder.h"
#include "kernels/tensor.h"
#include "kernels/visibility.h"

namespace attnd {

struct OutputSet {
  bool output = true;
  bool lse = false;
  bool scores = false;
  bool weights = false;
  bool entropy = false;
  bool key_mass = false;
  int64_t top_k = 0;  // keys per row
};

// Everything is borrowed and must outlive the plan.
struct AttentionProblem {
  TensorRef query;      // [B,Hq,Lq,D]
  TensorRef key;        // [B,Hkv,Lk,D], Hkv divides Hq
  TensorRef value;      // [B,Hkv,Lk,Dv]
  TimeAxis query_time;  // both axes of the same kind
  TimeAxis key_time;
  std::shared_ptr<const Encoder> encoder;  // null = NoPE
  // One per item instead, for encodings that depend on an item's length; empty
  // = `encoder` for all.
  std::vector<std::shared_ptr<const Encoder>> item_encoders;
  // Learned clocks in units, [B,Hkv,Lq,C] and [B,Hkv,Lk,C], for encodings that
  // name them; shape 0,0,0,0 = none.
  TensorRef query_clock, key_clock;
  // Log gates of cumulative biases, <= 0, [B,Hq,Lk,1]; shape 0,0,0,0 = none.
  TensorRef gates;
  MaskSpec mask;
  // Additive bias, natural units, extents B|1, Hq|1, Lq|1, Lk|1; shape 0,0,0,0
  // = none. -inf hides.
  TensorRef bias;
  float scale = 1;  // finite
  // Lets products round their operands to bf16 where this machine multiplies it
  // natively; sums, softmax and everything else stay f32. Accuracy:
  // attention.h.
  bool bf16_compute = false;
  // Tiles of keys that provably hold less than this share of the weight of
  // every row may be left out (pruning.h), unless an answer needs them all. In
  // [0, 1); 0 leaves out nothing. What is left out is not looked at: a
  // NaN there does not show.
  double prune_tolerance = 0;
  // logit = softcap * tanh(scale * q.k / softcap), before any bias; > 0.
  std::optional<float> softcap;
  // Logits in the softmax' denominator that belong to no key, one per query
  // head; -inf or empty = none. [Hq]
  absl::Span<const float> sinks;
  // 0 = not observed: each value channel of a row has a softmax of its own over
  // its observed keys, sinks included; 0 without any. Says nothing about lse,
  // scores and weights. Empty = all observed. [B,Lk,Dv]
  absl::Span<const char> value_mask;
  OutputSet outputs;
  DType output_dtype = DType::kF32;  // of `output`; the others are f32
};

// Columns of the value products: none unless the output is wanted; a masked
// channel needs a denominator of its own.
int64_t ValueColumns(const AttentionProblem& problem);

// Sequences of a packed problem, else its batch.
int64_t ItemCount(const AttentionProblem& problem);

// Where the answers go; each span is empty or has exactly the size that the
// plan states. Any alignment of 4 or better.
struct OutputBuffers {
  // [B,Hq,Lq,Dv] in the query's layout; `halves` instead where output_dtype has
  // 16 bits.
  absl::Span<float> output;
  absl::Span<uint16_t> halves;
  absl::Span<float> lse;      // [B,Hq,Lq]
  absl::Span<float> scores;   // [B,Hq,Lq,Lk]
  absl::Span<float> weights;  // [B,Hq,Lq,Lk]
  // Entropy of a row's weights in nats, 0 where it sees no key. [B,Hq,Lq]
  absl::Span<float> entropy;
  // The top_k largest weights of a row, descending; of equal logits the smaller
  // key row comes first. Short rows end in row -1, weight 0, time 0.
  // [B,Hq,Lq,top_k]
  absl::Span<int64_t> top_rows;
  absl::Span<float> top_weights;
  absl::Span<int64_t> top_times;  // bits of the key's time as sent; or empty
  // Weight that each key received, summed over queries. [B,Hq,Lk] Units add to
  // `key_sums`, which must be zeros before; FinishKeyMass (attention.h) writes
  // key_mass from it.
  absl::Span<float> key_mass;
  absl::Span<uint64_t> key_sums;
};

// One independent piece of work: some query rows (in time order) of query heads
// that share one kv head of one item.
struct Unit {
  int64_t item = 0;
  int64_t kv_head = 0;
  int64_t first_head = 0;  // among all query heads
  int64_t heads = 0;
  int64_t first_row = 0;  // in the item's time order
  int64_t rows = 0;
  int64_t flops = 0;  // of its matrix products, padded as the tiles are
};

// What tiles compute, over all query heads. Tiles that are half hidden leave
// out most of what no row of theirs sees.
struct TileCounts {
  int64_t pairs = 0;   // of a query and a key
  int64_t blocks = 0;  // of 64 keys, each against up to 128 rows
  int64_t flops = 0;   // of the products of those pairs
};

class Plan {
 public:
  // INVALID_ARGUMENT names the field, what was expected and what came:
  // mismatched shapes, NaN or infinite times where valid, spans over 2^63-1
  // ticks, negative visible lags under a one-sided encoding (with the first
  // pair), bias of NaN or +inf where visible. Cost: O(B (L log L)) in time,
  // plus O(B Hq Lq Lk) when a bias tensor is given.
  static absl::StatusOr<Plan> Make(const AttentionProblem& problem);

  const AttentionProblem& problem() const { return problem_; }
  absl::Span<const Unit> units() const { return units_; }
  // Items: the batch, or the sequences packed into one.
  int64_t items() const { return ItemCount(problem_); }
  // Geometry of an item: orders and visible intervals.
  const ItemGeometry& item(int64_t item) const {
    return items_[items_.size() == 1 ? 0 : item];
  }
  // Index of the item in the tensors' batch.
  int64_t batch(int64_t item) const {
    return problem_.mask.ragged() ? 0 : item;
  }
  // Rows of the item in the tensors.
  ItemRows rows(int64_t item) const {
    return RowsOf(problem_.mask, item, problem_.query.shape().rows,
                  problem_.key.shape().rows);
  }

  // Encoder of an item; null = NoPE.
  const Encoder* encoder(int64_t item) const {
    return problem_.item_encoders.empty() ? problem_.encoder.get()
                                          : problem_.item_encoders[item].get();
  }

  // Whether products are of bf16 operands: asked for and native here. Items of
  // few queries or keys are multiplied in f32 all the same.
  bool bf16() const { return bf16_; }
  // Matrix-product operations of all units.
  int64_t flops() const { return flops_; }
  const TileCounts& counts() const { return counts_; }
  // What free turns cost beside them at most, in the same operations.
  double turn_flops() const;
  // Elements of each answer tensor.
  int64_t output_elements() const;
  int64_t lse_elements() const;
  int64_t score_elements() const;
  int64_t top_elements() const;
  int64_t key_mass_elements() const;
  // Whether the heads of an item share its phase rows, so that they are
  // computed once: not under clocks or a generator per head, and not in items
  // so long that the rows would push tiles out of a core's cache.
  bool shares_phases(int64_t item) const;
  // Whether the phase rows of a kv head that shares none are kept while it is
  // selected, so that keys take those of queries, if all times agree.
  bool keeps_phases(int64_t item, int64_t kv_head) const;
  // Floats of the phase rows that one worker keeps for any item; `of_heads`:
  // also of those of single heads.
  int64_t phase_table_floats(bool of_heads) const;
  // Scratch one worker needs to run any unit of this plan, bytes.
  int64_t workspace_bytes() const;
  // Memory the plan itself holds, bytes.
  int64_t plan_bytes() const;
  // One object per Make, shared by copies: while somebody holds it, no other
  // plan has it.
  const std::shared_ptr<const void>& identity() const { return identity_; }

 private:
  Plan() = default;
  AttentionProblem problem_;
  std::vector<ItemGeometry> items_;  // one per item, or one for all
  std::vector<Unit> units_;
  int64_t flops_ = 0;
  bool bf16_ = false;
  std::shared_ptr<const void> identity_;
  TileCounts counts_;
};

}  // namespace attnd

#endif  // ATTND_KERNELS_PLAN_H_
