// Flushing of denormals while a unit runs.
#ifndef ATTND_KERNELS_FLOAT_MODE_H_
#define ATTND_KERNELS_FLOAT_MODE_H_

#include <cstdint>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace attnd {

// Sets flush-to-zero and denormals-are-zero for the calling thread and restores
// the old mode on destruction (rule N8: one subnormal weight makes a product a
// hundred times slower on many CPUs).
class FlushDenormals {
 public:
#if defined(__SSE2__)
  FlushDenormals() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | 0x8040u); }
  ~FlushDenormals() { _mm_setcsr(saved_); }
#elif defined(__aarch64__)
  FlushDenormals() {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    asm volatile("msr fpcr, %0" ::"r"(saved_ | (uint64_t{1} << 24)));
  }
  ~FlushDenormals() { asm volatile("msr fpcr, %0" ::"r"(saved_)); }
#else
  FlushDenormals() = default;
  ~FlushDenormals() {}
#endif
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if defined(__SSE2__)
  unsigned saved_;
#elif defined(__aarch64__)
  uint64_t saved_ = 0;
#endif
};

}  // namespace attnd

#endif  // ATTND_KERNELS_FLOAT_MODE_H_
