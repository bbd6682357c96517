// Preloaded into a process, this moves its wall clock by as many seconds as the
// int64 in the file ATTND_TEST_CLOCK says, at any time. The monotonic clock
// stays.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace {

using ClockGetTime = int (*)(clockid_t, timespec*);

const std::atomic<int64_t>* MapOffset() {
  const char* file = std::getenv("ATTND_TEST_CLOCK");
  const int fd = file == nullptr ? -1 : open(file, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return nullptr;
  void* memory = mmap(nullptr, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  return memory == MAP_FAILED
             ? nullptr
             : static_cast<const std::atomic<int64_t>*>(memory);
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static const auto real =
      reinterpret_cast<ClockGetTime>(dlsym(RTLD_NEXT, "clock_gettime"));
  static const std::atomic<int64_t>* const offset = MapOffset();
  const int result = real(clock, time);
  if (clock == CLOCK_REALTIME && offset != nullptr) time->tv_sec += *offset;
  return result;
}

int gettimeofday(timeval* time, void*) noexcept {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return 0;
}

}  // extern "C"
