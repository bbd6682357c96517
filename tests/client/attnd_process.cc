#include "tests/client/attnd_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"

extern char** environ;

namespace attnd::client {
namespace {

// Reads one line, without its end; false at the end of the file.
bool ReadLine(std::FILE* file, std::string* line) {
  line->clear();
  int c;
  while ((c = std::fgetc(file)) != EOF && c != '\n') {
    line->push_back(static_cast<char>(c));
  }
  return c != EOF || !line->empty();
}

}  // namespace

AttndProcess::AttndProcess(const std::string& config_path) {
  int log_pipe[2];
  if (pipe2(log_pipe, O_CLOEXEC) != 0) {
    ADD_FAILURE() << "no pipe";
    return;
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, log_pipe[1], 2);
  char program[] = ATTND_PATH;
  char option[] = "--config";
  std::string path = config_path;
  char* argv[] = {program, option, path.data(), nullptr};
  const int failed =
      posix_spawn(&pid_, program, &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(log_pipe[1]);
  if (failed != 0) {
    ADD_FAILURE() << "cannot run " << program;
    pid_ = 0;
    return;
  }
  std::FILE* log = fdopen(log_pipe[0], "r");
  std::string line;
  std::string seen;
  while (target_.empty() && ReadLine(log, &line)) {
    seen += line + "\n";
    google::protobuf::Struct entry;
    if (!google::protobuf::util::JsonStringToMessage(line, &entry).ok()) {
      continue;
    }
    const auto& fields = entry.fields();
    if (fields.count("event") == 1 &&
        fields.at("event").string_value() == "listening") {
      target_ = fields.at("grpc").string_value();
      admin_ = fields.at("admin").string_value();
    }
  }
  if (target_.empty()) ADD_FAILURE() << "attnd does not listen:\n" << seen;
  // A full pipe would stop the server.
  log_reader_ = std::thread([log] {
    std::string rest;
    while (ReadLine(log, &rest)) {
    }
    std::fclose(log);
  });
}

AttndProcess::~AttndProcess() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    Wait();
  }
  if (log_reader_.joinable()) log_reader_.join();
}

int AttndProcess::Stop() {
  kill(pid_, SIGTERM);
  return Wait();
}

int AttndProcess::Wait() {
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace attnd::client
