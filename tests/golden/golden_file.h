// Reads the golden vectors of this folder: records that end at an empty line,
// each line a key and its values.
#ifndef ATTND_TESTS_GOLDEN_GOLDEN_FILE_H_
#define ATTND_TESTS_GOLDEN_GOLDEN_FILE_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace attnd::testing {

class GoldenRecord {
 public:
  struct Line {
    std::string key;
    std::vector<std::string> values;

    int64_t Integer(size_t i) const;
    uint64_t Word(size_t i) const;
    double Number(size_t i) const;
    // All values from the i-th on.
    std::vector<int64_t> Integers(size_t i = 0) const;
    std::vector<double> Numbers(size_t i = 0) const;
  };

  // For messages: the first line.
  friend void PrintTo(const GoldenRecord& record, std::ostream* out);

  void Add(Line line) { lines_.push_back(std::move(line)); }
  const std::vector<Line>& lines() const { return lines_; }
  // First line of that key, null without one.
  const Line* Find(absl::string_view key) const;
  // The same for lines that must be there: aborts without one.
  const Line& Get(absl::string_view key) const;

 private:
  std::vector<Line> lines_;
};

// All records of tests/golden/<name>, read from the repository root. Aborts
// when there are none.
std::vector<GoldenRecord> ReadGoldenFile(const std::string& name);

}  // namespace attnd::testing

#endif  // ATTND_TESTS_GOLDEN_GOLDEN_FILE_H_
