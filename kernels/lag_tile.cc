#include "kernels/lag_tile.h"

#include <cstring>
#include <utility>

namespace attnd {
namespace {

int64_t Bits(double value) {
  int64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// Everything that what is prepared may depend on: times, who sees whom, and
// what elapsed and phases are counted from.
void Stamp(const LagRectangle& rectangle, std::vector<int64_t>* stamp) {
  const ItemGeometry& item = *rectangle.item;
  const int64_t rows = rectangle.rows, keys = rectangle.ValidKeys();
  stamp->resize(5 + 2 * rows + keys);
  int64_t* out = stamp->data();
  const auto copy = [&](const auto& from, int64_t first, int64_t count) {
    std::memcpy(out, from.data() + first, count * sizeof(int64_t));
    out += count;
  };
  *out++ = item.exact;
  *out++ = rows;
  *out++ = rectangle.keys;
  *out++ = item.exact ? 0 : Bits(item.real_reference);
  *out++ = item.key_rows == 0 ? 0
           : item.exact       ? item.key_ticks[0]
                              : Bits(item.key_real[0]);
  if (item.exact) {
    copy(item.query_ticks, rectangle.first, rows);
    copy(item.key_ticks, rectangle.key, keys);
  } else {
    copy(item.query_real, rectangle.first, rows);
    copy(item.key_real, rectangle.key, keys);
  }
  for (int64_t r = 0; r < rows; ++r) {
    *out++ = rectangle.Begin(r) << 32 | rectangle.End(r);
  }
}

// Of a sample: equal hashes are looked at in full.
uint64_t Hash(const std::vector<int64_t>& stamp) {
  const size_t step = stamp.size() / 16 + 1;
  uint64_t hash = stamp.size();
  for (size_t i = 0; i < stamp.size(); i += step) {
    hash = (hash ^ static_cast<uint64_t>(stamp[i])) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return hash;
}

int64_t PartBytes(const LagPart& part) {
  return static_cast<int64_t>(sizeof(float) * part.plane.capacity() +
                              sizeof(LagRun) * part.runs.capacity() +
                              sizeof(int32_t) * part.first_run.capacity() +
                              sizeof(double) * part.row_factor.capacity());
}

// Column of the first key that is later than row r, or as late.
template <bool kLater>
int64_t FirstColumn(const LagRectangle& tile, int64_t r) {
  const auto find = [](const auto& times, auto query) {
    const auto at = kLater
                        ? std::upper_bound(times.begin(), times.end(), query)
                        : std::lower_bound(times.begin(), times.end(), query);
    return at - times.begin();
  };
  const ItemGeometry& item = *tile.item;
  const int64_t i = tile.first + r;
  return (item.exact ? find(item.key_ticks, item.query_ticks[i])
                     : find(item.key_real, item.query_real[i])) -
         tile.key;
}

}  // namespace

LagPoint PointOf(const ItemGeometry& item, int64_t i, int64_t j) {
  if (item.exact) {
    return {.exact = true,
            .ticks = item.query_ticks[i] - item.key_ticks[j],
            .elapsed =
                static_cast<double>(item.query_ticks[i] - item.key_ticks[0])};
  }
  return {.exact = false,
          .real = item.query_real[i] - item.key_real[j],
          .elapsed = item.query_real[i] - item.key_real[0]};
}

int64_t LagRectangle::FirstFuture(int64_t r) const {
  return FirstColumn<true>(*this, r);
}

bool LagRectangle::LagsWithin(double least, double most) const {
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t begin = Begin(r), end = End(r);
    // Keys are in order: the ends are farthest, those beside the ones of the
    // row's own time nearest.
    for (const int64_t c :
         {begin, end - 1, FirstColumn<false>(*this, r) - 1, FirstFuture(r)}) {
      if (c < begin || c >= end) continue;
      const double size = std::fabs(item->Lag(first + r, key + c));
      if (size != 0 && !(size >= least && size <= most)) return false;
    }
  }
  return true;
}

const std::vector<LagPart>& LagCache::Find(
    const std::shared_ptr<const void>& owner,
    const std::vector<std::unique_ptr<LagTerm>>& terms,
    const LagRectangle& rectangle) {
  if (owner != owner_) {
    Forget();
    owner_ = owner;
  }
  Stamp(rectangle, &stamp_);
  const uint64_t hash = Hash(stamp_);
  // Heads walk the same rectangles in the same order.
  for (size_t i = 0; i < entries_.size(); ++i) {
    const size_t at = (hit_ + i) % entries_.size();
    if (entries_[at].hash != hash || entries_[at].stamp != stamp_) continue;
    hit_ = at + 1;
    return entries_[at].parts;
  }
  Entry& entry = Next();
  entry.parts.resize(terms.size());
  int64_t bytes = static_cast<int64_t>(sizeof(int64_t) * stamp_.size());
  for (size_t t = 0; t < terms.size(); ++t) {
    terms[t]->Prepare(rectangle, &scratch_, &entry.parts[t]);
    bytes += PartBytes(entry.parts[t]);
  }
  std::swap(entry.stamp, stamp_);
  entry.hash = hash;
  entry_bytes_ += bytes - std::exchange(entry.bytes, bytes);
  ++prepared_;
  return entry.parts;
}

void LagCache::Forget() {
  for (Entry& entry : entries_) entry.stamp.clear();
  scratch_.rows.stamp.clear();
  for (LagTable& keys : scratch_.keys) keys.stamp.clear();
}

// Replaced entries keep their memory: fresh pages cost more than preparing.
LagCache::Entry& LagCache::Next() {
  hit_ = 0;
  if (entry_bytes_ < kLagCacheBytes && entries_.size() < kLagCacheEntries) {
    return entries_.emplace_back();
  }
  oldest_ %= entries_.size();
  return entries_[oldest_++];
}

int64_t LagCache::bytes() const {
  const auto table_bytes = [](const LagTable& table) {
    return sizeof(int64_t) * table.stamp.capacity() +
           sizeof(float) * table.values.capacity();
  };
  size_t bytes = sizeof(int64_t) * stamp_.capacity() +
                 sizeof(int32_t) * scratch_.crossing.capacity() +
                 sizeof(uint64_t) * scratch_.phases.capacity() +
                 table_bytes(scratch_.rows);
  for (const LagTable& keys : scratch_.keys) bytes += table_bytes(keys);
  return entry_bytes_ + static_cast<int64_t>(bytes);
}

}  // namespace attnd
