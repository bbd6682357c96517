// The oneDNN seam: the two matrix products of a tile.
//
// No other file includes oneDNN or OpenMP; dnnl::error never leaves gemm.cc.
#ifndef ATTND_KERNELS_GEMM_H_
#define ATTND_KERNELS_GEMM_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace attnd {

// Keys are packed in blocks of 64: element (key j, channel c) of a head of
// padded dimension Dp stands at (j / 64) * Dp * 64 + c * 64 + j % 64. It is
// oneDNN's BA16a64b, so that products read packed keys in place.
inline constexpr int kKeyBlock = 64;

// Channels are padded with zeros to a multiple of 16, the depth of that format.
inline constexpr int64_t PaddedDim(int64_t dim) { return (dim + 15) / 16 * 16; }

// Operands in bf16 are 16-bit words, packed in blocks of 64 columns: element
// (channel c, key j) of a block of depth Dp rounded up to 32 stands at
// c / 2 * 128 + j % 64 * 2 + c % 2, oneDNN's BA16a64b2a (bf16_pack.h).
inline constexpr int64_t Bf16Depth(int64_t depth) {
  return (depth + 31) / 32 * 32;
}

// Rows of a product are padded to one of these, so that few primitives exist.
inline constexpr int kRowSteps[] = {16, 32, 64, 128};
inline constexpr int kMaxTileRows = 128;
inline constexpr int kMaxTileKeys = 256;

// Smallest step >= rows; 1 <= rows <= kMaxTileRows.
int PaddedRows(int64_t rows);
// Largest of 256, 128, 64 that is <= keys; keys is a positive multiple of 64.
int TileKeys(int64_t keys);

// Primitives for one thread at a time. Not thread-safe.
class TileGemm {
 public:
  // Pins the calling thread to one OpenMP thread, without which every call is
  // 60 to 600 times slower.
  static void PinThread();
  // Pins the thread. INTERNAL when oneDNN is unusable.
  static absl::StatusOr<std::unique_ptr<TileGemm>> Create();
  ~TileGemm();

  // s[rows, keys] = q[rows, dim] * K^T. rows is a step of kRowSteps, keys a
  // TileKeys value, dim padded; key_pack points to the first packed block. All
  // dense and row-major.
  absl::Status QueryKey(int rows, int keys, int64_t dim, const float* q,
                        const float* key_pack, float* s);

  // o[rows, dim] (+)= p[rows, keys] * v[keys, dim].
  absl::Status WeightValue(int rows, int keys, int64_t dim, const float* p,
                           const float* v, bool accumulate, float* o);

  // Whether this machine multiplies bf16 natively, at about twice the f32 rate.
  static bool NativeBf16();
  // The same with operands in bf16, sums in f32. Only where NativeBf16().
  absl::Status QueryKey(int rows, int keys, int64_t dim, const uint16_t* q,
                        const uint16_t* key_pack, float* s);
  // dim is at most 64: one block of columns, whose blocks of 64 keys follow
  // each other.
  absl::Status WeightValue(int rows, int keys, int64_t dim, const uint16_t* p,
                           const uint16_t* v, bool accumulate, float* o);

  // Builds the f32 products of tiles of 64 and 128 rows, so that the first call
  // of each need not: 0.1 ms or more each. What one thread has built others
  // find in oneDNN's own cache, at some 6 us each. Dimensions are padded.
  absl::Status Prepare(int64_t dim, int64_t value_dim);

  // Distinct primitives built so far that are kept; bounded by kMaxPrimitives.
  int64_t primitives() const;
  // Scratch that oneDNN asked for, bytes.
  int64_t scratch_bytes() const;

  // Beyond it all are dropped and built anew: at most 72 serve one (D, Dv), and
  // a primitive costs under 1 ms.
  static constexpr int64_t kMaxPrimitives = 720;

 private:
  struct Impl;
  explicit TileGemm(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace attnd

#endif  // ATTND_KERNELS_GEMM_H_
