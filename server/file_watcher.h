// Notices when files change, also when a directory of them is swapped by way of
// a symbolic link, as mounted ConfigMaps and Secrets are.
#ifndef ATTND_SERVER_FILE_WATCHER_H_
#define ATTND_SERVER_FILE_WATCHER_H_

#include <condition_variable>
#include <functional>
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
  explicit FileWatcher(std::vector<std::string> files)
      : files_(std::move(files)), seen_(Read()) {}
  // Stops.
  ~FileWatcher();

  // Whether the contents are others than at the last look; a file that cannot
  // be read has content of its own.
  bool Look();

  // Looks every `seconds` on a thread of its own and calls `changed` there.
  void Start(double seconds, std::function<void()> changed);

 private:
  std::string Read() const;

  const std::vector<std::string> files_;
  std::string seen_;  // a hash

  std::mutex mutex_;  // guards the next
  bool stopping_ = false;
  std::condition_variable wake_;
  std::thread thread_;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_FILE_WATCHER_H_
