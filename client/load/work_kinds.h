// Kinds of work: the requests that options describe.
#ifndef ATTND_CLIENT_LOAD_WORK_KINDS_H_
#define ATTND_CLIENT_LOAD_WORK_KINDS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "attnd/v1/attention.pb.h"
#include "client/load/work_options.h"
#include "client/load/workload.h"

namespace attnd::client {

// Key of the metadata that names a tenant.
inline constexpr char kTenantKey[] = "x-attnd-tenant";

// Requests of one kind, ready but for their serialization.
struct WorkKind {
  std::string name = {};
  double weight = 1;
  std::string tenant = {};
  std::vector<v1::AttendRequest> requests = {};
};

// One for each --mix, or the one that the arguments describe. Reads the files.
// InvalidArgument names the option.
absl::StatusOr<std::vector<WorkKind>> MakeWorkKinds(
    const WorkArguments& arguments);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_WORK_KINDS_H_
