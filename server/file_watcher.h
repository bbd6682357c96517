// Notices when files change, also when a directory of them is swapped by way of
// a symbolic link, as mounted ConfigMaps and Secrets are.
#ifndef ATTND_SERVER_FILE_WATCHER_H_
#define ATTND_SERVER_FILE_WATCHER_H_

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace attnd::server {

// Reads the files (small ones) now and then and compares: that works on every
// file system and with every way of replacing a file, which notifications do
// not.
class FileWatcher {
 public:
  explicit FileWatcher(const std::vector<std::string>& files) { Watch(files); }
  // Stops.
  ~FileWatcher();

  // These from now on. Those watched before are compared with the last look at
  // them, so that what changed meanwhile is seen. Before Start, or in
  // `changed`.
  void Watch(const std::vector<std::string>& files);

  // Whether the contents are others than at the last look; a file that cannot
  // be read has content of its own. Not after Start.
  bool Look();

  // Looks every `seconds` on a thread of its own and calls `changed` there.
  void Start(double seconds, std::function<void()> changed);
  // Has `changed` called soon, whether anything changed or not; after Start
  // where it came before. Thread-safe.
  void Ask();

 private:
  std::map<std::string, std::string> seen_;  // file -> hash

  std::mutex mutex_;  // guards the next two
  bool stopping_ = false, asked_ = false;
  std::condition_variable wake_;
  std::thread thread_;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_FILE_WATCHER_H_
