// main() of a fuzzer where libFuzzer is not linked: feeds it every file of the
// folders and files named on the command line, in name order, once each, then,
// for ATTND_FUZZ_SECONDS, inputs changed blindly. Those depend on
// ATTND_FUZZ_SEED (printed; without it another each time) and the corpus alone.
// The input that ends the process is found in <program>.last-input.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/mutation.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;

constexpr size_t kMostBytes = 64 << 10;

void Feed(const std::string& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()),
                         bytes.size());
}

// A file that has what was last put into it also when the process has crashed.
class LastInput {
 public:
  explicit LastInput(const std::string& path)
      : file_(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644)) {}
  ~LastInput() { close(file_); }
  LastInput(const LastInput&) = delete;
  LastInput& operator=(const LastInput&) = delete;

  bool Put(const std::string& input) {
    const auto size = static_cast<off_t>(input.size());
    return pwrite(file_, input.data(), input.size(), 0) == size &&
           ftruncate(file_, size) == 0;
  }

 private:
  const int file_;
};

bool FeedMutated(const std::string& path,
                 const std::vector<std::string>& corpus,
                 std::chrono::seconds seconds, uint64_t seed) {
  std::printf("changed inputs, ATTND_FUZZ_SEED=%llu, the last one in %s\n",
              static_cast<unsigned long long>(seed), path.c_str());
  std::fflush(stdout);
  LastInput last(path);
  std::mt19937_64 random(seed);
  const auto end = std::chrono::steady_clock::now() + seconds;
  int64_t count = 0;
  for (; std::chrono::steady_clock::now() < end; ++count) {
    const std::string input =
        attnd::testing::Mutated(corpus, kMostBytes, random);
    if (!last.Put(input)) {
      std::fprintf(stderr, "cannot write %s\n", path.c_str());
      return false;
    }
    Feed(input);
  }
  fs::remove(path);
  std::printf("%lld changed inputs\n", static_cast<long long>(count));
  return true;
}

// A number from the environment; 0 without.
uint64_t FromEnvironment(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

std::vector<fs::path> Files(const std::vector<fs::path>& places) {
  std::vector<fs::path> files;
  for (const fs::path& place : places) {
    if (!fs::is_directory(place)) {
      files.push_back(place);
      continue;
    }
    for (const auto& entry : fs::recursive_directory_iterator(place)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> corpus;
  for (const fs::path& path : Files({argv + 1, argv + argc})) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "cannot read %s\n", path.c_str());
      return 1;
    }
    corpus.emplace_back(std::istreambuf_iterator<char>(file),
                        std::istreambuf_iterator<char>());
    // Printed first, so that a crash shows its input.
    std::printf("%s, %zu bytes\n", path.c_str(), corpus.back().size());
    std::fflush(stdout);
    Feed(corpus.back());
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "no inputs\n");
    return 1;
  }
  std::printf("%zu inputs replayed\n", corpus.size());
  const uint64_t seconds = FromEnvironment("ATTND_FUZZ_SECONDS");
  const uint64_t seed = FromEnvironment("ATTND_FUZZ_SEED");
  if (seconds == 0) return 0;
  return FeedMutated(std::string(argv[0]) + ".last-input", corpus,
                     std::chrono::seconds(seconds),
                     seed == 0 ? std::random_device()() : seed)
             ? 0
             : 1;
}
