// Where exceptions end: nothing of ours throws, but memory runs out and
// libraries have bugs, and no call may take the server with it.
#ifndef ATTND_SERVER_GUARDED_H_
#define ATTND_SERVER_GUARDED_H_

#include <exception>
#include <new>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/status.h"

namespace attnd::server {

// What `function` returns, or a refusal if it throws.
template <typename Function>
absl::Status Guarded(Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (const std::bad_alloc&) {
    return Refuse(Reason::kMemory, "out of memory");
  } catch (const std::exception& error) {
    return Refuse(Reason::kInternal, absl::StrCat("exception: ", error.what()));
  } catch (...) {
    return Refuse(Reason::kInternal, "exception of unknown type");
  }
}

}  // namespace attnd::server

#endif  // ATTND_SERVER_GUARDED_H_
