#include "server/file_watcher.h"

#include <pthread.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/hash.h"

namespace attnd::server {

std::string FileWatcher::Read() const {
  std::string all;
  for (const std::string& file : files_) {
    std::ifstream stream(file);
    std::stringstream text;
    text << stream.rdbuf();
    absl::StrAppend(&all, stream ? Sha256(text.str()) : "unreadable", ";");
  }
  return all;
}

bool FileWatcher::Look() {
  std::string now = Read();
  if (now == seen_) return false;
  seen_ = std::move(now);
  return true;
}

void FileWatcher::Start(double seconds, std::function<void()> changed) {
  thread_ = std::thread([this, seconds, changed = std::move(changed)] {
    pthread_setname_np(pthread_self(), "attnd-files");
    const auto period = std::chrono::duration<double>(seconds);
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, period, [this] { return stopping_; })) {
      lock.unlock();
      if (Look()) changed();
      lock.lock();
    }
  });
}

FileWatcher::~FileWatcher() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

}  // namespace attnd::server
