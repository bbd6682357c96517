#include "server/encodings.h"

#include <set>
#include <utility>

namespace attnd::server {

EncoderCache::Key EncoderCache::MakeKey(const NamedEncoding& encoding,
                                        bool absolute_lag,
                                        const EncoderSizes& sizes,
                                        const TickRatio& ratio,
                                        const std::vector<TickRatio>& further) {
  std::vector<int64_t> further_ticks;
  for (const TickRatio& r : further) {
    further_ticks.push_back(r.tick_ns);
    further_ticks.push_back(r.unit_ns);
  }
  return {encoding.hash,     absolute_lag,   sizes.head_dim,
          sizes.query_heads, sizes.kv_heads, sizes.length,
          ratio.tick_ns,     ratio.unit_ns,  further_ticks};
}

std::shared_ptr<const Encoder> EncoderCache::Find(const Key& key) {
  std::lock_guard lock(mutex_);
  const auto it = entries_.find(key);
  if (it == entries_.end()) return nullptr;
  recent_.splice(recent_.begin(), recent_, it->second.place);
  return it->second.encoder;
}

std::shared_ptr<const Encoder> EncoderCache::Find(
    const NamedEncoding& encoding, bool absolute_lag, const EncoderSizes& sizes,
    const TickRatio& ratio, const std::vector<TickRatio>& further) {
  return Find(MakeKey(encoding, absolute_lag, sizes, ratio, further));
}

absl::StatusOr<std::shared_ptr<const Encoder>> EncoderCache::Get(
    const NamedEncoding& encoding, bool absolute_lag, const EncoderSizes& sizes,
    const TickRatio& ratio, const std::vector<TickRatio>& further,
    const std::atomic<bool>* stop) {
  const Key key = MakeKey(encoding, absolute_lag, sizes, ratio, further);
  if (auto found = Find(key)) return found;
  absl::StatusOr<EncodingSpec> spec = SpecFor(encoding, sizes);
  if (!spec.ok()) return spec.status();
  spec->absolute_lag = absolute_lag;
  absl::StatusOr<std::shared_ptr<const Encoder>> encoder =
      Encoder::Compile(*spec, sizes, ratio, further, stop);
  if (!encoder.ok()) return encoder;

  std::lock_guard lock(mutex_);
  const auto [it, inserted] = entries_.try_emplace(key);
  if (inserted) {
    recent_.push_front(key);
    it->second = {*encoder, recent_.begin()};
    if (entries_.size() > capacity_) {
      entries_.erase(recent_.back());
      recent_.pop_back();
    }
  }
  return it->second.encoder;
}

size_t EncoderCache::size() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

EncodingCatalog::EncodingCatalog(
    const google::protobuf::RepeatedPtrField<v1::Encoding>& encodings,
    size_t inline_entries)
    : inline_encoders_(inline_entries) {
  Violations checked;
  v1::Encoding nope;
  nope.set_name(kNopeName);
  encodings_.push_back(ReadEncoding(nope, "", checked));
  for (const v1::Encoding& encoding : encodings) {
    encodings_.push_back(ReadEncoding(encoding, "", checked));
  }
  for (const NamedEncoding& encoding : encodings_) {
    names_.push_back(encoding.name);
  }
}

std::vector<const NamedEncoding*> EncodingCatalog::NotIn(
    const EncodingCatalog* other) const {
  std::set<absl::string_view> known;
  if (other != nullptr) {
    for (const NamedEncoding& encoding : other->encodings_) {
      known.insert(encoding.hash);
    }
  }
  std::vector<const NamedEncoding*> others;
  for (const NamedEncoding& encoding : encodings_) {
    if (!known.contains(encoding.hash)) others.push_back(&encoding);
  }
  return others;
}

const NamedEncoding* EncodingCatalog::Find(absl::string_view name) const {
  for (const NamedEncoding& encoding : encodings_) {
    if (encoding.name == name) return &encoding;
  }
  return nullptr;
}

}  // namespace attnd::server
