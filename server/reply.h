// The reply of a request: its size before anything is computed, where the
// kernels write, and its serialized form.
#ifndef ATTND_SERVER_REPLY_H_
#define ATTND_SERVER_REPLY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "attnd/v1/attention.pb.h"
#include "kernels/plan.h"
#include "kernels/tensor.h"
#include "server/request_check.h"

namespace attnd::server {

// Elements of each tensor of the reply, 0 for those not asked for.
struct ReplySizes {
  int64_t output = 0, lse = 0, scores = 0, weights = 0;
  int64_t entropy = 0, key_mass = 0, top = 0;
  // Of the serialized message, an upper bound.
  int64_t bytes = 0;
};

// RESOURCE_EXHAUSTED, with size and limit, when the serialized reply would
// exceed `message_bytes`.
absl::StatusOr<ReplySizes> MeasureReply(const RequestSizes& sizes,
                                        const OutputSet& outputs,
                                        DType output_dtype,
                                        int64_t message_bytes);

// Part of a serialized reply: `text`, then the first `data_bytes` of `data`,
// which stay charged to `charge` as long as they exist.
struct ReplyPiece {
  std::string text;
  AlignedBuffer data;
  size_t data_bytes = 0;
  std::shared_ptr<const void> charge = nullptr;
};
using ReplyPieces = std::vector<ReplyPiece>;

// The answer tensors of one request. Each has memory of its own, which the
// serialized reply takes over: what the kernels write is never copied here.
class ReplyTensors {
 public:
  // Returns where the values go; they are uninitialised. Throws std::bad_alloc.
  OutputBuffers Allocate(const v1::AttendRequest& request,
                         const RequestSizes& sizes, const OutputSet& outputs,
                         DType output_dtype, const ReplySizes& reply_sizes);

  // An AttendResponse with the fields of `head`, which has no tensors, and
  // these tensors. Leaves none behind.
  ReplyPieces Serialize(const v1::AttendResponse& head);

 private:
  // Bytes of a message: `head`, then the data.
  struct Part {
    std::string head;
    AlignedBuffer data;
    size_t bytes = 0;
  };
  // A field of AttendResponse: its parts in one length.
  struct Entry {
    int field = 0;
    std::vector<Part> parts;
  };
  template <typename T>
  static absl::Span<T> Take(Part& part, int64_t elements);
  template <typename T>
  absl::Span<T> AddTensor(int field, v1::DType dtype, v1::Layout layout,
                          absl::Span<const int64_t> shape, int64_t elements);
  void AddTopKeys(const RequestSizes& sizes, int64_t top_k, bool times,
                  int64_t elements, OutputBuffers& buffers);

  std::vector<Entry> entries_;
  std::vector<uint64_t> key_sums_;  // working memory of key_mass
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_REPLY_H_
