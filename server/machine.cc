#include "server/machine.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace attnd::server {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Directories of one cgroup hierarchy, from the process's own up to the root.
struct Hierarchy {
  bool v2 = false;
  std::string controllers;  // v1: "cpu,cpuacct"
  std::vector<std::string> directories;
};

// Inside a container of cgroup v1 /proc/self/cgroup shows the host's path while
// only the container's own directory is mounted, as the root: walking up from
// a path that does not exist ends there.
std::vector<std::string> WalkUp(const std::string& mount, std::string path) {
  std::vector<std::string> directories;
  while (path.size() > 1) {
    directories.push_back(mount + path);
    path.resize(path.rfind('/'));
  }
  directories.push_back(mount);
  return directories;
}

std::vector<Hierarchy> ReadHierarchies(const std::string& root) {
  const std::string mount = root + "/sys/fs/cgroup";
  std::vector<Hierarchy> hierarchies;
  for (absl::string_view line :
       absl::StrSplit(ReadFile(root + "/proc/self/cgroup"), '\n')) {
    const std::vector<std::string> fields =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3 || fields[2].empty() || fields[2][0] != '/') {
      continue;
    }
    if (fields[1].empty()) {
      // Hybrid machines mount v2 one level down.
      for (const char* place : {"", "/unified"}) {
        hierarchies.push_back(
            {.v2 = true,
             .controllers = "",
             .directories = WalkUp(mount + place, fields[2])});
      }
    } else {
      std::vector<std::string> mounts = absl::StrSplit(fields[1], ',');
      mounts.push_back(fields[1]);
      for (const std::string& name : mounts) {
        hierarchies.push_back(
            {.v2 = false,
             .controllers = fields[1],
             .directories = WalkUp(absl::StrCat(mount, "/", name), fields[2])});
      }
    }
  }
  return hierarchies;
}

// The smallest value that `read` finds in any directory of any hierarchy.
template <typename T>
std::optional<T> Smallest(
    const std::vector<Hierarchy>& hierarchies,
    const std::function<std::optional<T>(const Hierarchy&, const std::string&)>&
        read) {
  std::optional<T> smallest;
  for (const Hierarchy& hierarchy : hierarchies) {
    for (const std::string& directory : hierarchy.directories) {
      const std::optional<T> value = read(hierarchy, directory);
      if (value && (!smallest || *value < *smallest)) smallest = value;
    }
  }
  return smallest;
}

std::optional<double> ReadQuota(const Hierarchy& hierarchy,
                                const std::string& directory) {
  double quota = 0, period = 0;
  if (hierarchy.v2) {
    const std::vector<std::string> fields = absl::StrSplit(
        ReadFile(directory + "/cpu.max"), absl::ByAnyChar(" \n"));
    if (fields.size() < 2 || !absl::SimpleAtod(fields[0], &quota) ||
        !absl::SimpleAtod(fields[1], &period)) {
      return std::nullopt;  // "max 100000" or no such file
    }
  } else if (!absl::SimpleAtod(ReadFile(directory + "/cpu.cfs_quota_us"),
                               &quota) ||
             !absl::SimpleAtod(ReadFile(directory + "/cpu.cfs_period_us"),
                               &period)) {
    return std::nullopt;
  }
  if (!(quota > 0) || !(period > 0)) return std::nullopt;  // v1: -1 = none
  return quota / period;
}

std::optional<int64_t> ReadMemoryLimit(const Hierarchy& hierarchy,
                                       const std::string& directory) {
  int64_t bytes = 0;
  const std::string file =
      directory + (hierarchy.v2 ? "/memory.max" : "/memory.limit_in_bytes");
  // v1 says "no limit" with a number just below 2^63.
  if (!absl::SimpleAtoi(ReadFile(file), &bytes) || bytes <= 0 ||
      bytes > (int64_t{1} << 60)) {
    return std::nullopt;
  }
  return bytes;
}

// The number after `key` in a file of "key value" lines; 0 if absent.
int64_t KeyedValue(const std::string& text, absl::string_view key) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> fields =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    int64_t value = 0;
    if (fields.size() >= 2 && fields[0] == key &&
        absl::SimpleAtoi(fields[1], &value)) {
      return value;
    }
  }
  return 0;
}

int AffinityCpus() {
  // Machines with more CPUs than a cpu_set_t has bits need a longer mask.
  for (int cpus = CPU_SETSIZE; cpus <= (1 << 16); cpus *= 2) {
    cpu_set_t* set = CPU_ALLOC(cpus);
    const size_t size = CPU_ALLOC_SIZE(cpus);
    const bool ok = sched_getaffinity(0, size, set) == 0;
    const int count = ok ? CPU_COUNT_S(size, set) : 0;
    CPU_FREE(set);
    if (ok) return std::max(1, count);
  }
  return 1;
}

void ReadStat(const std::string& root, ProcessUsage& usage) {
  const std::string stat = ReadFile(root + "/proc/self/stat");
  // The command name, in brackets, may hold spaces.
  const size_t bracket = stat.rfind(')');
  if (bracket == std::string::npos) return;
  const std::vector<std::string> fields =
      absl::StrSplit(stat.substr(bracket + 1), ' ', absl::SkipEmpty());
  const auto field = [&](size_t number) {  // as numbered in proc(5)
    int64_t value = 0;
    if (number - 3 < fields.size()) {
      (void)absl::SimpleAtoi(fields[number - 3], &value);
    }
    return value;
  };
  const double tick = static_cast<double>(sysconf(_SC_CLK_TCK));
  usage.minor_faults = field(10);
  usage.cpu_seconds = static_cast<double>(field(14) + field(15)) / tick;
  usage.threads = field(20);
  usage.virtual_bytes = field(23);
  usage.resident_bytes = field(24) * sysconf(_SC_PAGESIZE);
  const int64_t boot = KeyedValue(ReadFile(root + "/proc/stat"), "btime");
  usage.start_time_seconds =
      static_cast<double>(boot) + static_cast<double>(field(22)) / tick;
}

void ReadCgroup(const std::string& root, ProcessUsage& usage) {
  for (const Hierarchy& hierarchy : ReadHierarchies(root)) {
    for (const std::string& directory : hierarchy.directories) {
      const std::string stat = ReadFile(directory + "/cpu.stat");
      if (usage.throttled_periods == 0 && !stat.empty()) {
        usage.throttled_periods = KeyedValue(stat, "nr_throttled");
        usage.throttled_seconds =
            hierarchy.v2
                ? 1e-6 * static_cast<double>(KeyedValue(stat, "throttled_usec"))
                : 1e-9 *
                      static_cast<double>(KeyedValue(stat, "throttled_time"));
      }
      int64_t memory = 0;
      const std::string file =
          directory +
          (hierarchy.v2 ? "/memory.current" : "/memory.usage_in_bytes");
      if (usage.cgroup_memory_bytes == 0 &&
          absl::SimpleAtoi(ReadFile(file), &memory)) {
        usage.cgroup_memory_bytes = memory;
      }
    }
  }
}

}  // namespace

int Machine::DefaultWorkers() const {
  double cpus = affinity_cpus;
  if (quota_cpus) cpus = std::min(cpus, *quota_cpus);
  return std::max(1, static_cast<int>(std::floor(cpus)));
}

int64_t Machine::UsableMemory() const {
  if (!memory_limit_bytes) return memory_bytes;
  return memory_bytes > 0 ? std::min(*memory_limit_bytes, memory_bytes)
                          : *memory_limit_bytes;
}

std::string Machine::Describe() const {
  return absl::StrCat(
      "affinity ", affinity_cpus, " CPUs, cgroup quota ",
      quota_cpus ? absl::StrFormat("%.2f CPUs", *quota_cpus) : "none",
      ", memory ", UsableMemory() >> 20, " MiB",
      memory_limit_bytes ? " (cgroup)" : "");
}

Machine ReadMachine(const std::string& root, int affinity_cpus) {
  Machine machine;
  machine.affinity_cpus = affinity_cpus > 0 ? affinity_cpus : AffinityCpus();
  const std::vector<Hierarchy> hierarchies = ReadHierarchies(root);
  machine.quota_cpus = Smallest<double>(hierarchies, ReadQuota);
  machine.memory_limit_bytes = Smallest<int64_t>(hierarchies, ReadMemoryLimit);
  machine.memory_bytes =
      int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return machine;
}

ProcessUsage ReadProcessUsage(const std::string& root) {
  ProcessUsage usage;
  ReadStat(root, usage);
  ReadCgroup(root, usage);
  std::error_code error;
  for (std::filesystem::directory_iterator it(root + "/proc/self/fd", error),
       end;
       !error && it != end; it.increment(error)) {
    ++usage.open_files;
  }
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    usage.max_files = static_cast<int64_t>(
        std::min<rlim_t>(limit.rlim_cur, std::numeric_limits<int64_t>::max()));
  }
  return usage;
}

}  // namespace attnd::server
