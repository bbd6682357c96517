#include "client/npz.h"

#include <zlib.h>

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

// The layout is that of PKWARE's APPNOTE.TXT, sections 4.3.7, 4.3.12 and
// 4.3.16: the directory at the end names every member, its sizes and where its
// local header stands.
namespace attnd::client {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50;
constexpr uint32_t kDirectoryEntry = 0x02014b50;
constexpr uint32_t kDirectoryEnd = 0x06054b50;
constexpr size_t kDirectoryEndBytes = 22;
constexpr size_t kDirectoryEntryBytes = 46;
constexpr size_t kLocalHeaderBytes = 30;
// A size that stands in a ZIP64 record instead.
constexpr uint32_t kElsewhere = 0xffffffff;

absl::Status Damaged(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(".npz: ", what, ", expected what numpy.savez writes"));
}

// Little-endian; the caller has checked the bounds.
uint32_t Number(absl::string_view bytes, size_t at, int length) {
  uint32_t value = 0;
  for (int i = length; i-- > 0;) {
    value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  }
  return value;
}

struct Member {
  std::string name = {};
  uint32_t method = 0;
  uint32_t packed_bytes = 0;
  uint32_t bytes = 0;
  uint32_t crc = 0;
  uint32_t header_at = 0;
};

// Where the directory begins. The end record may be followed by a comment.
absl::StatusOr<std::pair<size_t, int>> Directory(absl::string_view file) {
  if (file.size() < kDirectoryEndBytes) return Damaged("too short");
  const size_t last = file.size() - kDirectoryEndBytes;
  for (size_t at = last + 1; at-- > 0 && last - at <= 0xffff;) {
    if (Number(file, at, 4) != kDirectoryEnd) continue;
    return std::pair<size_t, int>(Number(file, at + 16, 4),
                                  Number(file, at + 10, 2));
  }
  return Damaged("no ZIP archive");
}

// Moves `at` past the entry.
absl::StatusOr<Member> ReadEntry(absl::string_view file, size_t* at) {
  if (file.size() < kDirectoryEntryBytes ||
      *at > file.size() - kDirectoryEntryBytes ||
      Number(file, *at, 4) != kDirectoryEntry) {
    return Damaged("its directory is cut off");
  }
  const uint32_t flags = Number(file, *at + 8, 2);
  const size_t name_bytes = Number(file, *at + 28, 2);
  const size_t rest = Number(file, *at + 30, 2) + Number(file, *at + 32, 2);
  Member member = {.method = Number(file, *at + 10, 2),
                   .packed_bytes = Number(file, *at + 20, 4),
                   .bytes = Number(file, *at + 24, 4),
                   .crc = Number(file, *at + 16, 4),
                   .header_at = Number(file, *at + 42, 4)};
  *at += kDirectoryEntryBytes;
  if (file.size() - *at < name_bytes + rest) {
    return Damaged("its directory is cut off");
  }
  member.name = std::string(file.substr(*at, name_bytes));
  *at += name_bytes + rest;
  if ((flags & 1) != 0) return Damaged("it is encrypted");
  if (member.bytes == kElsewhere || member.packed_bytes == kElsewhere ||
      member.header_at == kElsewhere) {
    return Damaged(absl::StrCat(member.name, " is above 4 GiB"));
  }
  return member;
}

absl::StatusOr<std::string> Inflate(absl::string_view packed, size_t bytes) {
  // A hostile size must not be believed: deflate packs at most 1032 to 1.
  if (bytes > 1032 * packed.size() + 64) return Damaged("sizes disagree");
  std::string plain(bytes, '\0');
  z_stream stream = {};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return Damaged("no inflate");
  stream.next_in = reinterpret_cast<Bytef*>(
      const_cast<char*>(packed.data()));  // zlib's C interface
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(plain.data());
  stream.avail_out = static_cast<uInt>(bytes);
  const int result = inflate(&stream, Z_FINISH);
  const bool whole = result == Z_STREAM_END && stream.total_out == bytes;
  inflateEnd(&stream);
  if (!whole) return Damaged("a member cannot be unpacked");
  return plain;
}

absl::StatusOr<std::string> Content(absl::string_view file,
                                    const Member& member) {
  if (file.size() < kLocalHeaderBytes ||
      member.header_at > file.size() - kLocalHeaderBytes ||
      Number(file, member.header_at, 4) != kLocalHeader) {
    return Damaged(absl::StrCat(member.name, " is not where it should be"));
  }
  const size_t at = member.header_at + kLocalHeaderBytes +
                    Number(file, member.header_at + 26, 2) +
                    Number(file, member.header_at + 28, 2);
  if (at > file.size() || file.size() - at < member.packed_bytes) {
    return Damaged(absl::StrCat(member.name, " is cut off"));
  }
  const absl::string_view packed = file.substr(at, member.packed_bytes);
  absl::StatusOr<std::string> content;
  if (member.method == 0) {
    content = std::string(packed);
  } else if (member.method == 8) {
    content = Inflate(packed, member.bytes);
  } else {
    return Damaged(
        absl::StrCat(member.name, " is packed by method ", member.method));
  }
  if (!content.ok()) return content;
  const auto* data = reinterpret_cast<const Bytef*>(content->data());
  if (content->size() != member.bytes ||
      crc32(0, data, static_cast<uInt>(content->size())) != member.crc) {
    return Damaged(absl::StrCat(member.name, " is damaged"));
  }
  return content;
}

}  // namespace

absl::StatusOr<std::map<std::string, NpyArray>> ParseNpz(absl::string_view file,
                                                         int64_t max_bytes) {
  const auto directory = Directory(file);
  if (!directory.ok()) return directory.status();
  auto [at, entries] = *directory;
  std::map<std::string, NpyArray> arrays;
  int64_t bytes = 0;
  for (int i = 0; i < entries; ++i) {
    const absl::StatusOr<Member> member = ReadEntry(file, &at);
    if (!member.ok()) return member.status();
    bytes += member->bytes;
    if (bytes > max_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(".npz: ", member->name, ": ", bytes,
                       " bytes unpacked so far, expected at most ", max_bytes));
    }
    const absl::StatusOr<std::string> content = Content(file, *member);
    if (!content.ok()) return content.status();
    absl::StatusOr<NpyArray> array = ParseNpy(*content);
    if (!array.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(member->name, ": ", array.status().message()));
    }
    arrays[std::string(absl::StripSuffix(member->name, ".npy"))] =
        *std::move(array);
  }
  return arrays;
}

}  // namespace attnd::client
