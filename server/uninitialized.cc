// Compiled as C++23 where the library has what it takes (see CMakeLists.txt).
#include "server/uninitialized.h"

namespace attnd::server {

void ResizeUninitialized(std::string& text, size_t size) {
#ifdef __cpp_lib_string_resize_and_overwrite
  text.clear();
  text.resize_and_overwrite(size, [](char*, size_t n) { return n; });
#else
  text.resize(size);
#endif
}

}  // namespace attnd::server
