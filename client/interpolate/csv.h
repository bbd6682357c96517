// Comma-separated values by RFC 4180.
#ifndef ATTND_CLIENT_INTERPOLATE_CSV_H_
#define ATTND_CLIENT_INTERPOLATE_CSV_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace attnd::client {

struct CsvRow {
  // Line of the file on which the row begins, from 1.
  int64_t line = 0;
  std::vector<std::string> fields;
};

struct CsvTable {
  // Column names; empty when the file has no header.
  std::vector<std::string> header;
  std::vector<CsvRow> rows;
};

struct CsvOptions {
  bool has_header = true;
  char delimiter = ',';
};

// Reads a whole file: lines end in LF or CRLF, fields in quotes may hold
// delimiters, line ends and doubled quotes, a UTF-8 byte order mark and empty
// lines are passed over. InvalidArgument with the line for a quote that does
// not close, text after a closing quote, or a row whose field count differs
// from the first row's.
absl::StatusOr<CsvTable> ParseCsv(absl::string_view text,
                                  const CsvOptions& options = {});

// Index of the column called `name`, or else number `name` counted from 1.
// InvalidArgument listing the columns that exist.
absl::StatusOr<int> FindColumn(const CsvTable& table, absl::string_view name);

// A field as it must be written: quoted when it holds a delimiter, a quote or a
// line end.
std::string CsvField(absl::string_view value, char delimiter = ',');

}  // namespace attnd::client

#endif  // ATTND_CLIENT_INTERPOLATE_CSV_H_
