#include "tests/proof/other_load.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>
#include <string>

namespace attnd::testing {
namespace {

double UsageOf(int who) {
  rusage usage;
  getrusage(who, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) +
           1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Of a child that lives: field 4 of its stat is the parent, 14 and 15 are the
// times in ticks; the name in field 2 may hold blanks.
double UsageOfChild(const std::string& process, double ticks) {
  std::ifstream file("/proc/" + process + "/stat");
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(line.substr(name_end + 1));
  std::string field;
  double used = 0;
  for (int i = 3; i <= 15 && fields >> field; ++i) {
    if (i == 4 && field != std::to_string(getpid())) return 0;
    if (i >= 14) used += std::stod(field) / ticks;
  }
  return used;
}

double UsageOfChildren(double ticks) {
  double used = 0;
  DIR* processes = opendir("/proc");
  while (const dirent* entry = readdir(processes)) {
    if (std::isdigit(static_cast<unsigned char>(entry->d_name[0])) != 0) {
      used += UsageOfChild(entry->d_name, ticks);
    }
  }
  closedir(processes);
  return used;
}

}  // namespace

OtherLoad::Times OtherLoad::Now() {
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  Times times;
  // user, nice, system, idle, iowait, irq, softirq, steal
  std::ifstream file("/proc/stat");
  std::string name;
  file >> name;
  for (int i = 0; i < 8; ++i) {
    double value = 0;
    file >> value;
    value /= ticks;
    times.wall += value;
    // Interrupts are mostly for our own packets.
    if (i < 3) times.busy += value;
    if (i == 7) times.stolen = value;
  }
  times.own =
      UsageOf(RUSAGE_SELF) + UsageOf(RUSAGE_CHILDREN) + UsageOfChildren(ticks);
  return times;
}

OtherLoad::OtherLoad() : start_(Now()) {}

double OtherLoad::used() const {
  const Times now = Now();
  const double others = now.busy - start_.busy - (now.own - start_.own);
  return std::max(0.0, others / std::max(0.01, now.wall - start_.wall));
}

double OtherLoad::stolen() const {
  const Times now = Now();
  return (now.stolen - start_.stolen) / std::max(0.01, now.wall - start_.wall);
}

}  // namespace attnd::testing
