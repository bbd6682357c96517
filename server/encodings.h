// Encodings by name, compiled for the sizes that requests bring.
#ifndef ATTND_SERVER_ENCODINGS_H_
#define ATTND_SERVER_ENCODINGS_H_

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "attnd/v1/encoding.pb.h"
#include "kernels/clock.h"
#include "kernels/encoder.h"
#include "server/named_encoding.h"

namespace attnd::server {

// Ratio of a request without timestamps: one position is one unit.
inline constexpr TickRatio kPositionRatio = {.tick_ns = 1, .unit_ns = 1};

// Compiled encoders, the most recently used ones. Thread-safe.
class EncoderCache {
 public:
  explicit EncoderCache(size_t capacity) : capacity_(capacity) {}

  // Compiles or finds. INVALID_ARGUMENT when the encoding does not fit the
  // sizes. `absolute_lag` overrides the spec's two-sided rule.
  // CANCELLED soon after `stop` becomes true.
  absl::StatusOr<std::shared_ptr<const Encoder>> Get(
      const NamedEncoding& encoding, bool absolute_lag,
      const EncoderSizes& sizes, const TickRatio& ratio,
      const std::vector<TickRatio>& further = {},
      const std::atomic<bool>* stop = nullptr);
  // The same without compiling: null if it would have to.
  std::shared_ptr<const Encoder> Find(
      const NamedEncoding& encoding, bool absolute_lag,
      const EncoderSizes& sizes, const TickRatio& ratio,
      const std::vector<TickRatio>& further = {});

  size_t size() const;

 private:
  using Key = std::tuple<std::string, bool, int, int, int, int64_t, int64_t,
                         int64_t, std::vector<int64_t>>;
  struct Entry {
    std::shared_ptr<const Encoder> encoder;
    std::list<Key>::iterator place;
  };
  static Key MakeKey(const NamedEncoding& encoding, bool absolute_lag,
                     const EncoderSizes& sizes, const TickRatio& ratio,
                     const std::vector<TickRatio>& further);
  std::shared_ptr<const Encoder> Find(const Key& key);

  const size_t capacity_;
  mutable std::mutex mutex_;  // guards the two below
  std::map<Key, Entry> entries_;
  std::list<Key> recent_;  // most recent first
};

// The encodings of one configuration, "nope" included. Immutable but for the
// cache; thread-safe.
class EncodingCatalog {
 public:
  // The configured encodings must have been checked (LoadConfig). Encodings
  // that requests bring have a cache of their own, of `inline_entries`.
  EncodingCatalog(
      const google::protobuf::RepeatedPtrField<v1::Encoding>& encodings,
      size_t inline_entries);

  // Null if there is none of that name.
  const NamedEncoding* Find(absl::string_view name) const;
  const NamedEncoding& nope() const { return encodings_.front(); }
  absl::Span<const NamedEncoding> encodings() const { return encodings_; }
  absl::Span<const std::string> names() const { return names_; }

  // Those that give other answers than every one of `other`, whatever their
  // names; all if it is null.
  std::vector<const NamedEncoding*> NotIn(const EncodingCatalog* other) const;

  // Encoders of configured encodings, and of those that requests bring.
  EncoderCache& configured_encoders() const { return configured_encoders_; }
  EncoderCache& inline_encoders() const { return inline_encoders_; }

 private:
  std::vector<NamedEncoding> encodings_;
  std::vector<std::string> names_;
  mutable EncoderCache configured_encoders_{256};
  mutable EncoderCache inline_encoders_;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_ENCODINGS_H_
