#include "server/mask_check.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/wire.h"

namespace attnd::server {
namespace {

class MaskChecker {
 public:
  MaskChecker(const v1::AttendRequest& request, const RequestSizes& sizes,
              Violations& violations)
      : mask_(request.mask()),
        real_(request.has_query_time() &&
              request.query_time().type() == v1::TIME_TYPE_F64),
        sizes_(sizes),
        violations_(violations) {}

  void Check();

 private:
  void CheckWindow(std::optional<int64_t> ticks, std::optional<double> time,
                   absl::string_view side);
  void CheckCount(bool present, int64_t count, absl::string_view field) {
    if (!present || count >= 0) return;
    violations_.Add(field, absl::StrCat(count, ", expected >= 0"));
  }
  void CheckRanges();
  void CheckPacking();
  void CheckOffsets(const google::protobuf::RepeatedField<int64_t>& offsets,
                    absl::string_view field, int64_t rows);
  void CheckSinks();
  void CheckLengths(const google::protobuf::RepeatedField<int64_t>& lengths,
                    absl::string_view field, int64_t rows);
  void CheckBytes(const std::string& bytes, int64_t expected,
                  absl::string_view shape, absl::string_view field) {
    if (bytes.empty() || static_cast<int64_t>(bytes.size()) == expected) return;
    violations_.Add(field, absl::StrCat(bytes.size(), " bytes, expected ",
                                        expected, " (", shape, ")"));
  }
  void Expect(bool ok, absl::string_view field, absl::string_view description) {
    if (!ok) violations_.Add(field, description);
  }

  const v1::Mask& mask_;
  const bool real_;  // times are F64
  const RequestSizes& sizes_;
  Violations& violations_;
};

void MaskChecker::CheckWindow(std::optional<int64_t> ticks,
                              std::optional<double> time,
                              absl::string_view side) {
  if (!ticks && !time) return;
  const std::string ticks_field = absl::StrCat("mask.", side, "_ticks");
  const std::string time_field = absl::StrCat("mask.", side, "_time");
  if (ticks) {
    Expect(*ticks >= 0, ticks_field, absl::StrCat(*ticks, ", expected >= 0"));
    Expect(!real_, ticks_field,
           absl::StrCat("times are F64: use ", side, "_time"));
  }
  if (time) {
    Expect(*time >= 0, time_field, absl::StrCat(*time, ", expected >= 0"));
    Expect(real_, time_field,
           absl::StrCat("times are integer: use ", side, "_ticks"));
  }
}

void MaskChecker::CheckLengths(
    const google::protobuf::RepeatedField<int64_t>& lengths,
    absl::string_view field, int64_t rows) {
  if (lengths.empty()) return;
  if (lengths.size() != sizes_.batch) {
    violations_.Add(field, absl::StrCat(lengths.size(),
                                        " entries, expected one per batch item "
                                        "(",
                                        sizes_.batch, ") or none"));
    return;
  }
  int first = -1, bad = 0;
  for (int i = 0; i < lengths.size(); ++i) {
    if (lengths[i] >= 0 && lengths[i] <= rows) continue;
    if (bad++ == 0) first = i;
  }
  if (bad > 0) {
    violations_.Add(field,
                    absl::StrCat("entry ", first, " is ", lengths[first],
                                 ", expected 0 to ", rows),
                    bad);
  }
}

void MaskChecker::CheckRanges() {
  for (int i = 0; i < mask_.key_ranges_size(); ++i) {
    const v1::TimeRange& range = mask_.key_ranges(i);
    const bool ticks = range.begin_ticks() != 0 || range.end_ticks() != 0;
    const bool time = range.begin_time() != 0 || range.end_time() != 0;
    Expect(real_ ? !ticks : !time, "mask.key_ranges",
           absl::StrCat("entry ", i,
                        real_ ? ": times are F64: use begin_time "
                                "and end_time"
                              : ": times are integer: use "
                                "begin_ticks and end_ticks"));
    // False for NaN too.
    Expect(real_ ? range.begin_time() <= range.end_time()
                 : range.begin_ticks() <= range.end_ticks(),
           "mask.key_ranges",
           absl::StrCat("entry ", i, " ends before it begins"));
  }
}

void MaskChecker::CheckOffsets(
    const google::protobuf::RepeatedField<int64_t>& offsets,
    absl::string_view field, int64_t rows) {
  if (offsets.size() < 2 || offsets[0] != 0 ||
      offsets[offsets.size() - 1] != rows) {
    violations_.Add(field, absl::StrCat("expected offsets from 0 to ", rows));
    return;
  }
  int first = -1, bad = 0;
  for (int i = 1; i < offsets.size(); ++i) {
    if (offsets[i] >= offsets[i - 1]) continue;
    if (bad++ == 0) first = i;
  }
  if (bad > 0) {
    violations_.Add(field,
                    absl::StrCat("entry ", first, " is ", offsets[first],
                                 ", less than the one before"),
                    bad);
  }
}

void MaskChecker::CheckPacking() {
  const auto &query = mask_.query_offsets(), &key = mask_.key_offsets();
  if (query.empty() && key.empty()) return;
  Expect(query.size() == key.size(), "mask.key_offsets",
         absl::StrCat(key.size(), " entries beside ", query.size(),
                      " query_offsets"));
  Expect(sizes_.batch == 1, "mask.query_offsets",
         absl::StrCat("packed items need B = 1, not ", sizes_.batch));
  Expect(mask_.query_lengths().empty() && mask_.key_lengths().empty(),
         "mask.query_offsets", "offsets and lengths exclude each other");
  CheckOffsets(query, "mask.query_offsets", sizes_.queries);
  CheckOffsets(key, "mask.key_offsets", sizes_.keys);
}

void MaskChecker::CheckSinks() {
  const auto& sinks = mask_.sinks();
  if (sinks.empty()) return;
  Expect(sinks.size() == sizes_.query_heads, "mask.sinks",
         absl::StrCat(sinks.size(), " entries, expected one per query head (",
                      sizes_.query_heads, ")"));
  for (int h = 0; h < sinks.size(); ++h) {
    Expect(sinks[h] < HUGE_VALF, "mask.sinks",
           absl::StrCat("entry ", h, " is ", sinks[h],
                        ", expected finite or -inf"));
  }
}

void MaskChecker::Check() {
  const v1::Mask& mask = mask_;
  Expect(v1::Causality_IsValid(mask.causal()), "mask.causal",
         absl::StrCat("unknown value ", static_cast<int>(mask.causal())));
  const bool causal = mask.causal() == v1::CAUSALITY_TIME ||
                      mask.causal() == v1::CAUSALITY_INDEX;
  Expect(!mask.strict() || causal, "mask.strict",
         "has no meaning without mask.causal");
  const auto ticks = [](bool present, int64_t value) {
    return present ? std::optional<int64_t>(value) : std::nullopt;
  };
  const auto time = [](bool present, double value) {
    return present ? std::optional<double>(value) : std::nullopt;
  };
  CheckWindow(ticks(mask.has_past_ticks(), mask.past_ticks()),
              time(mask.has_past_time(), mask.past_time()), "past");
  CheckWindow(ticks(mask.has_future_ticks(), mask.future_ticks()),
              time(mask.has_future_time(), mask.future_time()), "future");
  CheckCount(mask.has_past_keys(), mask.past_keys(), "mask.past_keys");
  CheckCount(mask.has_future_keys(), mask.future_keys(), "mask.future_keys");
  CheckCount(true, mask.prefix(), "mask.prefix");
  CheckRanges();
  CheckPacking();
  CheckSinks();
  CheckLengths(mask.query_lengths(), "mask.query_lengths", sizes_.queries);
  CheckLengths(mask.key_lengths(), "mask.key_lengths", sizes_.keys);
  const int64_t keys =
      wire::CheckedMultiply(sizes_.batch, sizes_.keys).value_or(INT64_MAX);
  CheckBytes(mask.key_validity(), keys, "[B,Lk]", "mask.key_validity");
  CheckBytes(mask.value_channel_mask(),
             wire::CheckedMultiply(keys, sizes_.value_dim).value_or(INT64_MAX),
             "[B,Lk,Dv]", "mask.value_channel_mask");
}

}  // namespace

void CheckMask(const v1::AttendRequest& request, const RequestSizes& sizes,
               Violations& violations) {
  if (!request.has_mask()) return;  // all of it is optional
  MaskChecker(request, sizes, violations).Check();
}

}  // namespace attnd::server
