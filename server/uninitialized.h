// Strings that grow without being filled first: a reply is written once.
#ifndef ATTND_SERVER_UNINITIALIZED_H_
#define ATTND_SERVER_UNINITIALIZED_H_

#include <cstddef>
#include <string>

namespace attnd::server {

// Makes `text` `size` bytes long; what it holds then is unspecified.
void ResizeUninitialized(std::string& text, size_t size);

}  // namespace attnd::server

#endif  // ATTND_SERVER_UNINITIALIZED_H_
