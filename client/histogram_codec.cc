#include "client/histogram_codec.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"

namespace attnd::client {
namespace {

// Version 2, and 0x10: counts of one variable-length word each.
constexpr uint32_t kPlainCookie = 0x1c849303 | 0x10;
constexpr uint32_t kCompressedCookie = 0x1c849304 | 0x10;
constexpr size_t kHeaderBytes = 40;
// A slot takes at most 9 bytes; no histogram of these options has more slots.
constexpr size_t kMaxPlainBytes = size_t{64} << 20;

void Put32(uint32_t value, std::string* out) {
  for (int shift = 24; shift >= 0; shift -= 8) {
    out->push_back(static_cast<char>(value >> shift));
  }
}

void Put64(uint64_t value, std::string* out) {
  Put32(static_cast<uint32_t>(value >> 32), out);
  Put32(static_cast<uint32_t>(value), out);
}

uint32_t Get32(absl::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) {
    value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  }
  return value;
}

uint64_t Get64(absl::string_view bytes, size_t at) {
  return static_cast<uint64_t>(Get32(bytes, at)) << 32 | Get32(bytes, at + 4);
}

// Zig-zag, then 7 bits a byte from the lowest; the ninth byte holds 8.
void PutWord(int64_t value, std::string* out) {
  uint64_t bits =
      static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63);
  for (int i = 0; i < 8 && bits >= 0x80; ++i) {
    out->push_back(static_cast<char>(bits | 0x80));
    bits >>= 7;
  }
  out->push_back(static_cast<char>(bits));
}

// Moves `at` past the word; false when the bytes end inside it.
bool GetWord(absl::string_view bytes, size_t* at, int64_t* value) {
  uint64_t bits = 0;
  for (int i = 0; i < 9; ++i) {
    if (*at >= bytes.size()) return false;
    const uint64_t byte = static_cast<uint8_t>(bytes[(*at)++]);
    if (i == 8) {
      bits |= byte << 56;
      break;
    }
    bits |= (byte & 0x7f) << (7 * i);
    if (byte < 0x80) break;
  }
  *value = static_cast<int64_t>(bits >> 1 ^ -(bits & 1));
  return true;
}

// Counts in turn; a negative word is a number of empty slots.
std::string CountWords(absl::Span<const int64_t> counts) {
  std::string words;
  for (size_t i = 0; i < counts.size();) {
    size_t end = i;
    while (end < counts.size() && counts[end] == 0) ++end;
    if (end > i) {
      PutWord(-static_cast<int64_t>(end - i), &words);
      i = end;
    } else {
      PutWord(counts[i++], &words);
    }
  }
  return words;
}

absl::Status Damaged(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("histogram: ", what,
                   ", expected HdrHistogram's compressed encoding, version 2"));
}

absl::StatusOr<std::string> Inflate(absl::string_view compressed) {
  z_stream stream = {};
  if (inflateInit(&stream) != Z_OK) return Damaged("cannot be unpacked");
  stream.next_in = reinterpret_cast<Bytef*>(
      const_cast<char*>(compressed.data()));  // zlib's C interface
  stream.avail_in = static_cast<uInt>(compressed.size());
  std::string plain;
  int result = Z_OK;
  while (result == Z_OK && plain.size() < kMaxPlainBytes) {
    const size_t before = plain.size();
    plain.resize(std::max<size_t>(4096, 2 * before));
    stream.next_out = reinterpret_cast<Bytef*>(plain.data() + before);
    stream.avail_out = static_cast<uInt>(plain.size() - before);
    result = inflate(&stream, Z_NO_FLUSH);
    plain.resize(plain.size() - stream.avail_out);
    if (plain.size() == before && result == Z_OK) break;
  }
  inflateEnd(&stream);
  if (result != Z_STREAM_END) return Damaged("cannot be unpacked");
  return plain;
}

absl::Status ReadCounts(absl::string_view words, Histogram* histogram) {
  const HistogramOptions& options = histogram->options();
  int64_t slot = 0;
  for (size_t at = 0; at < words.size();) {
    int64_t word;
    if (!GetWord(words, &at, &word)) return Damaged("a count is cut off");
    if (word < 0) {
      if (word < -(int64_t{1} << 32)) return Damaged("too many slots");
      slot -= word;
      continue;
    }
    // Slots above the range would shift their value out of 64 bits.
    const bool far =
        slot > int64_t{1} << 32 || slot > histogram->SlotIndex(options.highest);
    if (far && word > 0) return Damaged("too many slots");
    histogram->Record(std::min(histogram->SlotValue(slot), options.highest),
                      word);
    ++slot;
  }
  return absl::OkStatus();
}

}  // namespace

std::string EncodeHistogram(const Histogram& histogram) {
  const std::string words = CountWords(histogram.SlotCounts());
  std::string plain;
  Put32(kPlainCookie, &plain);
  Put32(static_cast<uint32_t>(words.size()), &plain);
  Put32(0, &plain);  // offset of shifted histograms
  Put32(static_cast<uint32_t>(histogram.options().digits), &plain);
  Put64(static_cast<uint64_t>(histogram.options().lowest), &plain);
  Put64(static_cast<uint64_t>(histogram.options().highest), &plain);
  Put64(std::bit_cast<uint64_t>(1.0), &plain);  // unit of double histograms
  plain += words;

  uLongf bytes = compressBound(plain.size());
  std::string packed(bytes, '\0');
  compress2(reinterpret_cast<Bytef*>(packed.data()), &bytes,
            reinterpret_cast<const Bytef*>(plain.data()), plain.size(),
            Z_BEST_COMPRESSION);
  packed.resize(bytes);
  std::string result;
  Put32(kCompressedCookie, &result);
  Put32(static_cast<uint32_t>(packed.size()), &result);
  return absl::Base64Escape(result + packed);
}

absl::StatusOr<Histogram> DecodeHistogram(absl::string_view text) {
  std::string bytes;
  if (!absl::Base64Unescape(text, &bytes)) return Damaged("no base64");
  if (bytes.size() < 8 || Get32(bytes, 0) != kCompressedCookie ||
      Get32(bytes, 4) != bytes.size() - 8) {
    return Damaged("another format");
  }
  const absl::StatusOr<std::string> plain =
      Inflate(absl::string_view(bytes).substr(8));
  if (!plain.ok()) return plain.status();
  if (plain->size() < kHeaderBytes || Get32(*plain, 0) != kPlainCookie ||
      Get32(*plain, 4) > plain->size() - kHeaderBytes ||
      Get32(*plain, 8) != 0) {
    return Damaged("another format inside");
  }
  const HistogramOptions options = {
      .lowest = static_cast<int64_t>(Get64(*plain, 16)),
      .highest = static_cast<int64_t>(Get64(*plain, 24)),
      .digits = static_cast<int>(Get32(*plain, 12))};
  absl::StatusOr<Histogram> histogram = Histogram::Create(options);
  if (!histogram.ok()) return histogram.status();
  absl::Status status = ReadCounts(
      absl::string_view(*plain).substr(kHeaderBytes, Get32(*plain, 4)),
      &*histogram);
  if (!status.ok()) return status;
  return histogram;
}

std::string HistogramLog(double start_epoch_seconds,
                         const std::vector<HistogramLogLine>& lines,
                         double max_unit) {
  std::string text = absl::StrFormat(
      "#[Histogram log format version 1.3]\n"
      "#[StartTime: %.3f (seconds since epoch), %s]\n"
      "#[BaseTime: %.3f (seconds since epoch)]\n"
      "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\","
      "\"Interval_Compressed_Histogram\"\n",
      start_epoch_seconds,
      absl::FormatTime(absl::RFC3339_sec,
                       absl::UnixEpoch() + absl::Seconds(start_epoch_seconds),
                       absl::UTCTimeZone()),
      start_epoch_seconds);
  for (const HistogramLogLine& line : lines) {
    absl::StrAppendFormat(&text, "Tag=%s,%.3f,%.3f,%.3f,%s\n", line.tag,
                          line.begin_seconds, line.length_seconds,
                          static_cast<double>(line.histogram->Max()) / max_unit,
                          EncodeHistogram(*line.histogram));
  }
  return text;
}

}  // namespace attnd::client
