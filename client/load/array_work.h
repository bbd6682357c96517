// A request from a user's arrays.
#ifndef ATTND_CLIENT_LOAD_ARRAY_WORK_H_
#define ATTND_CLIENT_LOAD_ARRAY_WORK_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "attnd/v1/attention.pb.h"
#include "client/load/workload.h"

namespace attnd::client {

// The archive itself, or the files of a prefix.
std::vector<std::string> ArrayFiles(const std::string& path);

// One request with the arrays query, key, value and, both or none, query_time
// and key_time: of an archive "FILE.npz", or of the files "PREFIX.query.npy"
// and so on. Encoding, mask, outputs and priority are those of `work`, its
// shapes and times are not used. Errors name the file.
absl::StatusOr<std::vector<v1::AttendRequest>> ReadArrayRequests(
    const std::string& path, const std::string& unit, const Work& work);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_ARRAY_WORK_H_
