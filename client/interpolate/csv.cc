#include "client/interpolate/csv.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace attnd::client {
namespace {

class Reader {
 public:
  Reader(absl::string_view text, char delimiter)
      : text_(text), delimiter_(delimiter) {}

  bool AtEnd() const { return at_ == text_.size(); }

  absl::StatusOr<CsvRow> TakeRow() {
    CsvRow row;
    row.line = line_;
    do {
      std::string field;
      const bool quoted = !AtEnd() && text_[at_] == '"';
      absl::Status status = quoted ? TakeQuoted(&field) : TakePlain(&field);
      if (!status.ok()) return status;
      row.fields.push_back(std::move(field));
    } while (Take(delimiter_));
    Take('\r');
    if (Take('\n')) ++line_;
    return row;
  }

 private:
  bool Take(char c) {
    if (AtEnd() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  // At a delimiter, a line end or the end of the text.
  bool AtFieldEnd() const {
    if (AtEnd() || text_[at_] == delimiter_ || text_[at_] == '\n') return true;
    return text_[at_] == '\r' &&
           (at_ + 1 == text_.size() || text_[at_ + 1] == '\n');
  }

  absl::Status TakePlain(std::string* field) {
    while (!AtFieldEnd()) field->push_back(text_[at_++]);
    return absl::OkStatus();
  }

  absl::Status TakeQuoted(std::string* field) {
    const int64_t opened = line_;
    ++at_;
    while (true) {
      if (AtEnd()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "line ", opened, ": a quote opens here and does not close"));
      }
      const char c = text_[at_++];
      if (c == '\n') ++line_;
      if (c == '"' && !Take('"')) break;  // a doubled quote is one of the text
      field->push_back(c);
    }
    if (AtFieldEnd()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("line ", line_, ": found '", text_.substr(at_, 1),
                     "' after a closing quote, expected '",
                     std::string(1, delimiter_), "' or the end of the line"));
  }

  absl::string_view text_;
  char delimiter_;
  size_t at_ = 0;
  int64_t line_ = 1;
};

bool IsEmptyLine(const CsvRow& row) {
  return row.fields.size() == 1 && row.fields[0].empty();
}

}  // namespace

absl::StatusOr<CsvTable> ParseCsv(absl::string_view text,
                                  const CsvOptions& options) {
  if (absl::StartsWith(text, "\xef\xbb\xbf")) text.remove_prefix(3);
  CsvTable table;
  size_t width = 0;
  Reader reader(text, options.delimiter);
  while (!reader.AtEnd()) {
    absl::StatusOr<CsvRow> row = reader.TakeRow();
    if (!row.ok()) return row.status();
    if (IsEmptyLine(*row)) continue;
    if (width == 0) {
      width = row->fields.size();
      if (options.has_header) {
        table.header = std::move(row->fields);
        continue;
      }
    }
    if (row->fields.size() != width) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", row->line, ": ", row->fields.size(),
                       " fields, expected ", width, " as in the first row"));
    }
    table.rows.push_back(*std::move(row));
  }
  return table;
}

absl::StatusOr<int> FindColumn(const CsvTable& table, absl::string_view name) {
  for (size_t i = 0; i < table.header.size(); ++i) {
    if (table.header[i] == name) return static_cast<int>(i);
  }
  size_t width = table.header.size();
  if (width == 0 && !table.rows.empty()) width = table.rows[0].fields.size();
  if (width == 0) {
    return absl::InvalidArgumentError("the file is empty, expected a table");
  }
  int number = 0;
  if (absl::SimpleAtoi(name, &number) && number >= 1 &&
      static_cast<size_t>(number) <= width) {
    return number - 1;
  }
  return absl::InvalidArgumentError(
      table.header.empty()
          ? absl::StrCat("column '", name, "', expected a number from 1 to ",
                         width, " (the file has no header)")
          : absl::StrCat("column '", name, "', expected one of ",
                         absl::StrJoin(table.header, ", "),
                         " or a number from 1 to ", width));
}

std::string CsvField(absl::string_view value, char delimiter) {
  if (value.find_first_of("\"\r\n") == absl::string_view::npos &&
      !absl::StrContains(value, std::string(1, delimiter))) {
    return std::string(value);
  }
  return absl::StrCat("\"", absl::StrReplaceAll(value, {{"\"", "\"\""}}), "\"");
}

}  // namespace attnd::client
