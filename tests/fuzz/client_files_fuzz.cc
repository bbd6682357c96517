// Everything the client reads that others wrote, with any bytes: .npy files,
// CSV files, times, durations and error details. The first byte chooses. What
// is accepted must also be consistent, and survive being written and read
// again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/string_view.h"
#include "client/duration_text.h"
#include "client/error_details.h"
#include "client/interpolate/csv.h"
#include "client/interpolate/series.h"
#include "client/interpolate/time_text.h"
#include "client/npy.h"
#include "client/status_from_wire.h"

namespace {

using namespace attnd::client;  // NOLINT(google-build-using-namespace)

void Require(bool condition) {
  if (!condition) std::abort();
}

void ReadNpyBytes(absl::string_view bytes) {
  const auto array = ParseNpy(bytes, {.bf16_from_u2 = true});
  if (!array.ok()) return;
  const auto again = ParseNpy(SerializeNpy(*array));
  Require(again.ok() && again->data == array->data &&
          again->shape == array->shape && again->type == array->type);
}

void ReadCsvText(absl::string_view bytes) {
  const auto table = ParseCsv(bytes);
  if (!table.ok()) return;
  for (const CsvRow& row : table->rows) {
    Require(row.fields.size() == table->header.size());
  }
  (void)MakeSeries(*table);
}

void ReadTime(absl::string_view text) {
  for (int64_t unit_ns : {int64_t{0}, int64_t{1'000'000}}) {
    const TimeFormat format = {.epoch_unit_ns = unit_ns};
    const auto time = ParseTime(text, format);
    if (!time.ok()) continue;
    Require(ParseTime(TimeTexts({*time}, format)[0], format).value() == *time);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view bytes(reinterpret_cast<const char*>(data) + 1,
                                size - 1);
  switch (data[0]) {
    case 'n':
      ReadNpyBytes(bytes);
      break;
    case 'c':
      ReadCsvText(bytes);
      break;
    case 't':
      ReadTime(bytes);
      break;
    case 'd':
      (void)ParseDuration(bytes);
      break;
    case 's':
      (void)GetErrorDetails(StatusFromWire(14, "text", std::string(bytes)));
      break;
    default:
      break;
  }
  return 0;
}
