// What this process may use of the machine: CPUs and memory, by affinity and by
// the cgroups (v1 and v2) it is in.
#ifndef ATTND_SERVER_MACHINE_H_
#define ATTND_SERVER_MACHINE_H_

#include <cstdint>
#include <optional>
#include <string>

namespace attnd::server {

struct Machine {
  // CPUs in the affinity mask.
  int affinity_cpus = 1;
  // The smallest CPU quota of all cgroups up to the root, in CPUs.
  std::optional<double> quota_cpus;
  // The smallest memory limit of them, bytes.
  std::optional<int64_t> memory_limit_bytes;
  // Physical memory, bytes.
  int64_t memory_bytes = 0;

  // floor(min(affinity, quota)), at least 1. More threads than that stand still
  // together once the quota of a period is used up.
  int DefaultWorkers() const;
  // What limits derive from: the cgroup's limit, else the physical memory.
  int64_t UsableMemory() const;
  // "affinity 8 CPUs, cgroup quota 2.00 CPUs".
  std::string Describe() const;
};

// Reads the running process's limits. `root` is put before /proc and
// /sys/fs/cgroup, for tests on fixtures; `affinity_cpus` = 0 asks the kernel.
Machine ReadMachine(const std::string& root = "", int affinity_cpus = 0);

// Readings for metrics; 0 where the kernel does not tell.
struct ProcessUsage {
  double cpu_seconds = 0;
  double start_time_seconds = 0;  // since the epoch
  int64_t resident_bytes = 0;
  int64_t virtual_bytes = 0;
  int64_t open_files = 0;
  int64_t max_files = 0;
  int64_t threads = 0;
  int64_t minor_faults = 0;
  // Of the cgroup the process is in.
  double throttled_seconds = 0;
  int64_t throttled_periods = 0;
  int64_t cgroup_memory_bytes = 0;
};
ProcessUsage ReadProcessUsage(const std::string& root = "");

}  // namespace attnd::server

#endif  // ATTND_SERVER_MACHINE_H_
