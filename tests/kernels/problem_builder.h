// Attention problems for tests: a description by value, its owned bytes, and
// random contents from a seed.
#ifndef ATTND_TESTS_KERNELS_PROBLEM_BUILDER_H_
#define ATTND_TESTS_KERNELS_PROBLEM_BUILDER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/plan.h"

namespace attnd::testing {

// Whether this build runs under a sanitizer, where tests take fewer samples.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

// Numbers that are the same with every compiler and library.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Bits();                             // splitmix64
  double Uniform();                            // [0, 1)
  int64_t Integer(int64_t low, int64_t high);  // both included
  float Normal();                              // mean 0, variance 1
  bool Coin() { return (Bits() & 1) != 0; }
  std::vector<float> Normals(int64_t count, float scale = 1);
  template <typename T>
  const T& Pick(const std::vector<T>& from) {
    return from[Integer(0, static_cast<int64_t>(from.size()) - 1)];
  }

 private:
  uint64_t state_;
};

// Everything that makes a problem. Contents are f32 in BHLD order whatever the
// layouts and the dtype of the built tensors.
struct ProblemSpec {
  uint64_t seed = 0;  // for messages
  int64_t batch = 1, query_heads = 1, kv_heads = 1;
  int64_t queries = 1, keys = 1, dim = 4, value_dim = 4;
  Layout query_layout = Layout::kBHLD;
  Layout key_layout = Layout::kBHLD;
  Layout value_layout = Layout::kBHLD;
  DType dtype = DType::kF32;
  // Of one tensor, where it differs.
  std::optional<DType> key_dtype, value_dtype;
  DType output_dtype = DType::kF32;
  std::vector<float> query, key, value;

  // Times per item when they hold batch rows, else shared; coordinates next to
  // each other.
  TimeAxis::Kind kind = TimeAxis::Kind::kPositions;
  int coordinates = 1;
  std::vector<int64_t> query_ticks, key_ticks;
  std::vector<double> query_real, key_real;

  std::optional<EncodingSpec> encoding;
  // [B,Hkv,L,clock_channels] and [B,Hq,Lk]; empty = none.
  std::vector<float> query_clock, key_clock, gates;
  int64_t clock_channels = 1;
  TickRatio ratio;

  bool causal = false, strict = false;
  std::optional<int64_t> past_ticks, future_ticks;
  std::optional<double> past_time, future_time;
  bool causal_index = false;
  std::optional<int64_t> past_keys, future_keys;
  int64_t prefix = 0;
  std::vector<TimeRange> key_ranges;
  std::vector<int64_t> query_lengths, key_lengths;
  std::vector<int64_t> query_offsets, key_offsets;
  std::vector<char> key_validity;

  Shape4 bias_shape;
  std::vector<float> bias;
  DType bias_dtype = DType::kF32;
  Layout bias_layout = Layout::kBHLD;
  float scale = 1;
  bool bf16_compute = false;
  double prune_tolerance = 0;
  std::optional<float> softcap;
  std::vector<float> sinks;
  std::vector<char> value_mask;
  int64_t top_k = 0;  // where it is asked for

  void SetLayouts(Layout layout);
  // Random normal query, key and value.
  void Fill(Random& random);
  // Sizes, masks and seed in one line.
  std::string Describe() const;
};

// A problem and all that it borrows. Movable: what is borrowed lies on the
// heap.
class OwnedProblem {
 public:
  // The status of whichever factory refuses.
  static absl::StatusOr<OwnedProblem> Build(const ProblemSpec& spec);
  OwnedProblem(OwnedProblem&&) = default;
  OwnedProblem& operator=(OwnedProblem&&) = default;

  const AttentionProblem& problem() const { return problem_; }
  AttentionProblem& problem() { return problem_; }

 private:
  OwnedProblem() = default;
  AttentionProblem problem_;
  std::vector<char> query_, key_, value_, bias_, query_time_, key_time_;
  std::vector<char> query_clock_, key_clock_, gates_;
  std::vector<int64_t> query_lengths_, key_lengths_;
  std::vector<int64_t> query_offsets_, key_offsets_;
  std::vector<char> validity_, value_mask_;
  std::vector<float> sinks_;
};

// Bits of the nearest bf16 or f16 (ties to even).
uint16_t ToBFloat16(float value);
uint16_t ToFloat16(float value);

}  // namespace attnd::testing

#endif  // ATTND_TESTS_KERNELS_PROBLEM_BUILDER_H_
