#include "tests/golden/golden_file.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace attnd::testing {
namespace {

[[noreturn]] void Abort(absl::string_view what, absl::string_view name) {
  std::fprintf(stderr, "golden vectors: %.*s %.*s\n",
               static_cast<int>(what.size()), what.data(),
               static_cast<int>(name.size()), name.data());
  std::abort();
}

}  // namespace

int64_t GoldenRecord::Line::Integer(size_t i) const {
  return std::stoll(values.at(i));
}

uint64_t GoldenRecord::Line::Word(size_t i) const {
  return std::stoull(values.at(i));
}

double GoldenRecord::Line::Number(size_t i) const {
  return std::strtod(values.at(i).c_str(), nullptr);
}

std::vector<int64_t> GoldenRecord::Line::Integers(size_t i) const {
  std::vector<int64_t> out;
  for (; i < values.size(); ++i) out.push_back(Integer(i));
  return out;
}

std::vector<double> GoldenRecord::Line::Numbers(size_t i) const {
  std::vector<double> out;
  for (; i < values.size(); ++i) out.push_back(Number(i));
  return out;
}

void PrintTo(const GoldenRecord& record, std::ostream* out) {
  for (const std::string& value : record.lines().front().values) {
    *out << value << ' ';
  }
}

const GoldenRecord::Line* GoldenRecord::Find(absl::string_view key) const {
  for (const Line& line : lines_) {
    if (line.key == key) return &line;
  }
  return nullptr;
}

const GoldenRecord::Line& GoldenRecord::Get(absl::string_view key) const {
  const Line* line = Find(key);
  if (line == nullptr) Abort("no line", key);
  return *line;
}

std::vector<GoldenRecord> ReadGoldenFile(const std::string& name) {
  std::ifstream file("tests/golden/" + name);
  std::vector<GoldenRecord> records;
  bool open = false;
  for (std::string text; std::getline(file, text);) {
    if (text.empty()) {
      open = false;
      continue;
    }
    if (!open) records.emplace_back();
    open = true;
    std::istringstream words(text);
    GoldenRecord::Line line;
    words >> line.key;
    for (std::string value; words >> value;) line.values.push_back(value);
    records.back().Add(std::move(line));
  }
  if (records.empty()) Abort("nothing to read in", name);
  return records;
}

}  // namespace attnd::testing
