#include "tests/fuzz/mutation.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

namespace attnd::testing {
namespace {

size_t Below(size_t end, std::mt19937_64& random) {
  return std::uniform_int_distribution<size_t>(0, end - 1)(random);
}

struct Piece {
  size_t begin = 0, size = 0;
};

// Mostly short ones; `text` is not empty.
Piece PieceOf(const std::string& text, std::mt19937_64& random) {
  const size_t begin = Below(text.size(), random);
  const size_t most = Below(4, random) == 0 ? text.size() : size_t{16};
  return {begin, 1 + Below(std::min(most, text.size() - begin), random)};
}

void PutNumber(std::string& text, std::mt19937_64& random) {
  constexpr std::array<int64_t, 9> kBorders = {
      0,
      1,
      -1,
      127,
      128,
      std::numeric_limits<int32_t>::max(),
      std::numeric_limits<int32_t>::min(),
      std::numeric_limits<int64_t>::max(),
      std::numeric_limits<int64_t>::min()};
  const int64_t number = kBorders[Below(kBorders.size(), random)];
  const size_t at = Below(text.size(), random);
  if (Below(2, random) == 0) {
    text.insert(at, std::to_string(number));
    return;
  }
  const size_t bytes = size_t{1} << Below(4, random);
  for (size_t i = 0; i < std::min(bytes, text.size() - at); ++i) {
    text[at + i] = static_cast<char>(number >> (8 * i));
  }
}

void Change(const std::string& other, std::string& text,
            std::mt19937_64& random) {
  if (text.empty()) text = other;
  if (text.empty()) text.assign(1, '0');
  const Piece piece = PieceOf(text, random);
  switch (Below(6, random)) {
    case 0:
      text[piece.begin] ^= static_cast<char>(1 << Below(8, random));
      return;
    case 1:
      text[piece.begin] = static_cast<char>(Below(256, random));
      return;
    case 2:
      PutNumber(text, random);
      return;
    case 3:
      text.erase(piece.begin, piece.size);
      return;
    case 4:
      text.insert(piece.begin, std::string(text, piece.begin, piece.size));
      return;
    default:
      if (other.empty()) return;
      const Piece from = PieceOf(other, random);
      text.replace(piece.begin, piece.size, other, from.begin, from.size);
  }
}

}  // namespace

std::string Mutated(const std::vector<std::string>& corpus, size_t most,
                    std::mt19937_64& random) {
  std::string text = corpus[Below(corpus.size(), random)];
  const size_t changes = 1 + Below(8, random);
  for (size_t i = 0; i < changes; ++i) {
    Change(corpus[Below(corpus.size(), random)], text, random);
  }
  text.resize(std::min(text.size(), most));
  return text;
}

}  // namespace attnd::testing
