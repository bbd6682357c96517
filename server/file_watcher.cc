#include "server/file_watcher.h"

#include <pthread.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <utility>

#include "server/hash.h"

namespace attnd::server {
namespace {

std::string HashOf(const std::string& file) {
  std::ifstream stream(file);
  std::stringstream text;
  text << stream.rdbuf();
  return stream ? Sha256(text.str()) : "unreadable";
}

}  // namespace

void FileWatcher::Watch(const std::vector<std::string>& files) {
  std::map<std::string, std::string> seen;
  for (const std::string& file : files) {
    const auto known = seen_.find(file);
    seen[file] = known != seen_.end() ? known->second : HashOf(file);
  }
  seen_ = std::move(seen);
}

bool FileWatcher::Look() {
  bool changed = false;
  for (auto& [file, hash] : seen_) {
    std::string now = HashOf(file);
    changed |= now != hash;
    hash = std::move(now);
  }
  return changed;
}

void FileWatcher::Start(double seconds, std::function<void()> changed) {
  thread_ = std::thread([this, seconds, changed = std::move(changed)] {
    pthread_setname_np(pthread_self(), "attnd-files");
    const auto period = std::chrono::duration<double>(seconds);
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait_for(lock, period, [this] { return stopping_ || asked_; });
      if (stopping_) return;
      const bool asked = std::exchange(asked_, false);
      lock.unlock();
      // The look first: what it saw need not be told once more.
      if (Look() || asked) changed();
      lock.lock();
    }
  });
}

void FileWatcher::Ask() {
  {
    std::lock_guard lock(mutex_);
    asked_ = true;
  }
  wake_.notify_all();
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
