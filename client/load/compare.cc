#include "client/load/compare.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/histogram_codec.h"
#include "client/random.h"

namespace attnd::client {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;

constexpr int kResamples = 1000;
constexpr int kFigures = 6;
// Stretches that stay together: the cube root of their number is the usual
// length (Hall, Horowitz and Jing 1995).
size_t BlockLength(size_t rows) {
  return std::max<size_t>(1, std::lround(std::cbrt(rows)));
}

const Value& Field(const Struct& object, const std::string& name) {
  static const Value& none = *new Value();
  const auto found = object.fields().find(name);
  return found == object.fields().end() ? none : found->second;
}

// Throughput, mean, p50, p90, p99 and share of errors of some stretches; NaN
// for latencies of none.
struct Figures {
  double values[kFigures];
};

// A run whose stretches are added up thousands of times: counts of all slots in
// one array, and of each stretch only those that are not 0.
class Resampled {
 public:
  explicit Resampled(const ComparedRun& run) : run_(run) {
    size_t slots = 0;
    for (const ComparedRun::Row& row : run.rows) {
      const absl::Span<const int64_t> counts = row.latency_ns.SlotCounts();
      slots = std::max(slots, counts.size());
      filled_.emplace_back();
      for (size_t slot = 0; slot < counts.size(); ++slot) {
        if (counts[slot] > 0) filled_.back().push_back({slot, counts[slot]});
      }
    }
    counts_.resize(slots);
  }

  Figures Of(const std::vector<size_t>& rows) {
    std::fill(counts_.begin(), counts_.end(), 0);
    int64_t ok = 0;
    int64_t count = 0;
    int64_t planned = 0;
    int64_t errors = 0;
    for (size_t row : rows) {
      ok += run_.rows[row].ok;
      planned += run_.rows[row].planned;
      errors += run_.rows[row].errors;
      for (const auto& [slot, of_slot] : filled_[row]) {
        counts_[slot] += of_slot;
        count += of_slot;
      }
    }
    const double seconds = static_cast<double>(rows.size()) * run_.row_seconds;
    Figures figures = {{static_cast<double>(ok) / seconds, Mean(count)}};
    int figure = 2;
    for (double share : {0.5, 0.9, 0.99}) {
      figures.values[figure++] = Quantile(share, count);
    }
    figures.values[figure] =
        planned > 0 ? static_cast<double>(errors) / static_cast<double>(planned)
                    : 0;
    return figures;
  }

 private:
  double SecondsOf(size_t slot) const {
    return 1e-9 * static_cast<double>(run_.rows[0].latency_ns.SlotValue(
                      static_cast<int64_t>(slot)));
  }

  double Mean(int64_t count) const {
    double sum = 0;
    for (size_t slot = 0; slot < counts_.size(); ++slot) {
      if (counts_[slot] > 0) {
        sum += static_cast<double>(counts_[slot]) *
               (SecondsOf(slot) + SecondsOf(slot + 1)) / 2;
      }
    }
    return count > 0 ? sum / static_cast<double>(count) : NAN;
  }

  double Quantile(double share, int64_t count) const {
    if (count == 0) return NAN;
    int64_t seen = 0;
    for (size_t slot = 0; slot < counts_.size(); ++slot) {
      seen += counts_[slot];
      if (static_cast<double>(seen) >= share * static_cast<double>(count)) {
        return SecondsOf(slot + 1);
      }
    }
    return 0;
  }

  const ComparedRun& run_;
  std::vector<std::vector<std::pair<size_t, int64_t>>> filled_;
  std::vector<int64_t> counts_;
};

std::vector<size_t> All(size_t rows) {
  std::vector<size_t> all(rows);
  for (size_t i = 0; i < rows; ++i) all[i] = i;
  return all;
}

// As many stretches as there are, in blocks from random places.
std::vector<size_t> Resample(size_t rows, Random& random) {
  const size_t block = BlockLength(rows);
  std::vector<size_t> chosen;
  while (chosen.size() < rows) {
    const size_t first = random.Below(rows - block + 1);
    for (size_t i = 0; i < block && chosen.size() < rows; ++i) {
      chosen.push_back(first + i);
    }
  }
  return chosen;
}

}  // namespace

absl::StatusOr<ComparedRun> ParseRun(absl::string_view json) {
  Struct file;
  const auto read =
      google::protobuf::util::JsonStringToMessage(std::string(json), &file);
  if (!read.ok() || Field(file, "schema").string_value() != "attnctl.load/1" ||
      !Field(file, "timeline").has_struct_value()) {
    return absl::InvalidArgumentError(
        "expected what attnctl load --json writes");
  }
  ComparedRun run;
  run.mode = Field(file, "mode").string_value();
  std::vector<std::string> work;
  for (const Value& kind : Field(file, "work").list_value().values()) {
    work.push_back(kind.string_value());
  }
  run.work = absl::StrJoin(work, "; ");
  run.valid = Field(file, "valid").bool_value();
  run.answers_per_second = Field(file, "answers_per_second").number_value();
  run.error_share = Field(file, "error_share").number_value();
  const Struct& timeline = Field(file, "timeline").struct_value();
  run.row_seconds = Field(timeline, "row_seconds").number_value();
  for (const Value& value : Field(timeline, "rows").list_value().values()) {
    const Struct& row = value.struct_value();
    absl::StatusOr<Histogram> latency =
        DecodeHistogram(Field(row, "latency_hdr_nanoseconds").string_value());
    if (!latency.ok()) return latency.status();
    // The same slots in all rows of all runs.
    run.rows.push_back({static_cast<int64_t>(Field(row, "ok").number_value()),
                        *Histogram::Create({.digits = 2})});
    run.rows.back().latency_ns.Merge(*latency);
    const auto number = [&](const char* name) {
      return static_cast<int64_t>(Field(row, name).number_value());
    };
    run.rows.back().planned = number("planned");
    run.rows.back().errors = number("failed") + number("dropped");
  }
  // The last stretch is rarely a whole one, and may hold only the ends of
  // calls.
  if (run.rows.size() > 1) run.rows.pop_back();
  if (run.rows.empty() || !(run.row_seconds > 0)) {
    return absl::InvalidArgumentError("the run has no stretch of time");
  }
  return run;
}

std::vector<ComparedFigure> Compare(const ComparedRun& a, const ComparedRun& b,
                                    uint64_t seed) {
  Resampled resampled_a(a);
  Resampled resampled_b(b);
  const auto whole = [](const ComparedRun& run, Resampled& resampled) {
    Figures figures = resampled.Of(All(run.rows.size()));
    figures.values[0] = run.answers_per_second;
    figures.values[kFigures - 1] = run.error_share;
    return figures;
  };
  const Figures of_a = whole(a, resampled_a);
  const Figures of_b = whole(b, resampled_b);
  Random random(seed);
  std::vector<double> ratios[kFigures];
  for (int i = 0; i < kResamples; ++i) {
    const Figures again_a = resampled_a.Of(Resample(a.rows.size(), random));
    const Figures again_b = resampled_b.Of(Resample(b.rows.size(), random));
    for (int f = 0; f < kFigures; ++f) {
      const double from = again_a.values[f];
      const double to = again_b.values[f];
      if (std::isnan(from) || std::isnan(to)) continue;
      ratios[f].push_back(ComparedFigure::Ratio(from, to));
    }
  }
  const char* const names[kFigures] = {"answers/s", "mean", "p50",
                                       "p90",       "p99",  "errors"};
  std::vector<ComparedFigure> figures;
  for (int f = 0; f < kFigures; ++f) {
    std::vector<double>& of_f = ratios[f];
    std::sort(of_f.begin(), of_f.end());
    const size_t n = of_f.size();
    figures.push_back({.name = names[f],
                       .a = of_a.values[f],
                       .b = of_b.values[f],
                       .low = n > 0 ? of_f[n * 25 / 1000] : 0,
                       .high = n > 0 ? of_f[n * 975 / 1000] : HUGE_VAL,
                       .more_is_better = f == 0,
                       .is_share = f == kFigures - 1});
  }
  return figures;
}

}  // namespace attnd::client
