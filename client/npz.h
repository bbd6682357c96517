// Arrays in NumPy's .npz files: .npy files in a ZIP archive, stored
// (numpy.savez) or deflated (numpy.savez_compressed).
#ifndef ATTND_CLIENT_NPZ_H_
#define ATTND_CLIENT_NPZ_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/npy.h"

namespace attnd::client {

// All arrays of an archive by name, without ".npy". InvalidArgument for a
// damaged, hostile or encrypted archive, for members that are above `max_bytes`
// together once unpacked, and for a member that is no array.
absl::StatusOr<std::map<std::string, NpyArray>> ParseNpz(absl::string_view file,
                                                         int64_t max_bytes);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_NPZ_H_
