// Keeps a server to its configuration file: from the start, before the file is
// read, until the process ends.
#ifndef ATTND_SERVER_RELOADER_H_
#define ATTND_SERVER_RELOADER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/config.h"
#include "server/file_watcher.h"
#include "server/machine.h"
#include "server/server.h"

namespace attnd::server {

// Reloads on a thread of its own, so that neither signals nor a drain wait for
// the compiling and the self-test of a new configuration.
class Reloader {
 public:
  Reloader(std::string file, const Machine& machine);

  // The first configuration. What changes afterwards is seen by Follow.
  absl::StatusOr<Config> Load();
  // Reloads from now on whenever the file, or one that it names, has changed;
  // at once where Ask came before. Once, after Load; `server` must outlive
  // this.
  void Follow(Server* server);
  // Reloads soon even where nothing has changed. Thread-safe, at any time.
  void Ask() { watcher_.Ask(); }

 private:
  void Reload();
  // The file, and those of a configuration in force and of one that is tried.
  void Watch(const std::vector<std::string>& tried);

  const std::string file_;
  const Machine machine_;
  Server* server_ = nullptr;
  std::vector<std::string> in_force_;  // files that it names
  FileWatcher watcher_;  // last: it ends before what its thread uses
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_RELOADER_H_
