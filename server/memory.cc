#include "server/memory.h"

#include <malloc.h>

#include <limits>

namespace attnd::server {

void KeepFreedMemory() {
  // mallopt takes an int, and 4 GiB as an int is 0: the largest int it is.
  constexpr int kNever = std::numeric_limits<int>::max();
  mallopt(M_MMAP_THRESHOLD, kNever);
  mallopt(M_TRIM_THRESHOLD, kNever);
  mallopt(M_TOP_PAD, 64 << 20);
}

}  // namespace attnd::server
