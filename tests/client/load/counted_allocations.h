// Counts what operator new is asked for, in the programs that link this.
#ifndef ATTND_TESTS_CLIENT_LOAD_COUNTED_ALLOCATIONS_H_
#define ATTND_TESTS_CLIENT_LOAD_COUNTED_ALLOCATIONS_H_

#include <cstdint>

namespace attnd::client {

// By all threads, so far.
int64_t AllocationCount();

}  // namespace attnd::client

#endif  // ATTND_TESTS_CLIENT_LOAD_COUNTED_ALLOCATIONS_H_
