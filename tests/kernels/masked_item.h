// One batch item under a mask, and the rules of what its queries see, pair by
// pair.
#ifndef ATTND_TESTS_KERNELS_MASKED_ITEM_H_
#define ATTND_TESTS_KERNELS_MASKED_ITEM_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "kernels/visibility.h"

namespace attnd::testing {

// One batch item and its mask, owning what MaskSpec borrows.
struct Item {
  using Kind = TimeAxis::Kind;

  Kind kind = Kind::kTicks;
  std::vector<int64_t> query_ticks, key_ticks;
  std::vector<double> query_real, key_real;
  int64_t queries = 0, keys = 0;
  MaskSpec mask;  // its spans are set from the next three
  std::vector<int64_t> query_lengths, key_lengths;
  std::vector<char> validity;

  static Item Ticks(std::vector<int64_t> queries, std::vector<int64_t> keys) {
    Item item;
    item.queries = static_cast<int64_t>(queries.size());
    item.keys = static_cast<int64_t>(keys.size());
    item.query_ticks = std::move(queries);
    item.key_ticks = std::move(keys);
    return item;
  }

  static Item Real(std::vector<double> queries, std::vector<double> keys) {
    Item item;
    item.kind = Kind::kReal;
    item.queries = static_cast<int64_t>(queries.size());
    item.keys = static_cast<int64_t>(keys.size());
    item.query_real = std::move(queries);
    item.key_real = std::move(keys);
    return item;
  }

  static Item Positions(int64_t queries, int64_t keys) {
    Item item;
    item.kind = Kind::kPositions;
    item.queries = queries;
    item.keys = keys;
    return item;
  }

  int64_t ValidQueries() const {
    return query_lengths.empty() ? queries : query_lengths[0];
  }
  int64_t ValidKeys() const {
    return key_lengths.empty() ? keys : key_lengths[0];
  }

  // The rules, word by word.
  bool Visible(int64_t i, int64_t j) const {
    if (i >= ValidQueries() || j >= ValidKeys()) return false;
    if (!validity.empty() && validity[j] == 0) return false;
    if (kind == Kind::kReal) {
      const double lag = query_real[i] - key_real[j];
      if (mask.causal && (mask.strict ? lag <= 0 : lag < 0)) return false;
      if (mask.past_time && lag > *mask.past_time) return false;
      return !mask.future_time || lag >= -*mask.future_time;
    }
    const __int128 lag =
        kind == Kind::kPositions
            ? static_cast<__int128>(ValidKeys() - ValidQueries() + i) - j
            : static_cast<__int128>(query_ticks[i]) - key_ticks[j];
    if (mask.causal && (mask.strict ? lag <= 0 : lag < 0)) return false;
    if (mask.past_ticks && lag > *mask.past_ticks) return false;
    return !mask.future_ticks ||
           lag >= -static_cast<__int128>(*mask.future_ticks);
  }

  absl::StatusOr<ItemGeometry> Geometry() const {
    MaskSpec spec = mask;
    spec.query_lengths = query_lengths;
    spec.key_lengths = key_lengths;
    spec.key_validity = validity;
    const auto axis = [this](const std::vector<int64_t>& ticks,
                             const std::vector<double>& real, int64_t rows) {
      if (kind == Kind::kPositions) return TimeAxis();
      const char* bytes = kind == Kind::kTicks
                              ? reinterpret_cast<const char*>(ticks.data())
                              : reinterpret_cast<const char*>(real.data());
      return *TimeAxis::Make(kind, absl::MakeConstSpan(bytes, 8 * rows), 1,
                             rows, /*per_item=*/false);
    };
    return MakeGeometry(axis(query_ticks, query_real, queries),
                        axis(key_ticks, key_real, keys), spec, 0, queries,
                        keys);
  }

  std::string Describe() const {
    std::string text = absl::StrCat(
        "t_q ", absl::StrJoin(query_ticks, ","), absl::StrJoin(query_real, ","),
        " t_k ", absl::StrJoin(key_ticks, ","), absl::StrJoin(key_real, ","),
        mask.causal ? " causal" : "", mask.strict ? " strict" : "", " lengths ",
        ValidQueries(), " ", ValidKeys());
    if (mask.past_ticks) absl::StrAppend(&text, " past ", *mask.past_ticks);
    if (mask.future_ticks) {
      absl::StrAppend(&text, " future ", *mask.future_ticks);
    }
    for (char v : validity) absl::StrAppend(&text, v ? " 1" : " 0");
    return text;
  }
};

}  // namespace attnd::testing

#endif  // ATTND_TESTS_KERNELS_MASKED_ITEM_H_
