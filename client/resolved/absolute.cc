#include "client/resolved/absolute.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace attnd::client::resolved {
namespace {

constexpr double kHalfPi = 1.5707963267948966;

// sin(frequency * time + phase).
double Sine(double frequency, DoubleDouble time, double phase) {
  const DoubleDouble turns = DoubleDouble{frequency, 0} * time / kTwoPi;
  return std::sin(kTwoPi.high * Fraction(turns) + phase);
}

void Add(const v1::Sinusoidal& part, DoubleDouble time,
         std::vector<double>& vector) {
  const double base = part.has_base() ? part.base() : 10000;
  const double amplitude = part.has_amplitude() ? part.amplitude() : 1;
  const int dim = static_cast<int>(vector.size()), half = dim / 2;
  for (int i = 0; i < half; ++i) {
    const double exponent = part.order() == v1::Sinusoidal::ORDER_ENDPOINTS
                                ? static_cast<double>(i) / std::max(half - 1, 1)
                                : 2.0 * i / dim;
    const bool interleaved = part.order() == v1::Sinusoidal::ORDER_INTERLEAVED;
    const double frequency = std::pow(base, -exponent);
    vector[interleaved ? 2 * i : i] += amplitude * Sine(frequency, time, 0);
    vector[interleaved ? 2 * i + 1 : half + i] +=
        amplitude * Sine(frequency, time, kHalfPi);
  }
}

std::vector<double> Embed(const v1::Time2Vec& part, DoubleDouble time) {
  std::vector<double> vector;
  for (int c = 0; c < part.frequencies_size(); ++c) {
    vector.push_back(c == 0 ? part.frequencies(0) * time.high + part.phases(0)
                            : Sine(part.frequencies(c), time, part.phases(c)));
  }
  return vector;
}

void Add(const v1::MultiTimeAttention& part, bool query, int kv_head,
         DoubleDouble time, std::vector<double>& vector) {
  const std::vector<double> phi =
      Embed(part.embedding(part.embedding_size() == 1 ? 0 : kv_head), time);
  const auto& projection =
      query ? part.query_projection() : part.key_projection();
  const size_t width = phi.size();
  for (size_t c = 0; c < vector.size(); ++c) {
    for (size_t e = 0; e < width; ++e) {
      vector[c] += projection[static_cast<int>(c * width + e)] * phi[e];
    }
  }
}

void Add(const v1::TransformerHawkes& part, DoubleDouble time, int64_t index,
         std::vector<double>& vector) {
  const int dim = static_cast<int>(vector.size());
  for (int c = 0; c < dim; ++c) {
    if (part.form() == v1::TransformerHawkes::FORM_SAHP) {
      const double event =
          part.index_frequencies(c) * static_cast<double>(index);
      vector[c] += Sine(part.time_frequencies(c), time, event);
      continue;
    }
    const int i = c + 1;  // as published, from 1
    const double exponent = (i % 2 == 1 ? i - 1.0 : i) / dim;
    vector[c] +=
        Sine(std::pow(10000.0, -exponent), time, i % 2 == 1 ? kHalfPi : 0);
  }
}

// Rows of a learned table around a place, with their weights.
class TableRows {
 public:
  TableRows(const v1::LearnedTable& table, DoubleDouble place)
      : table_(table), whole_(Floor(place)) {
    fraction_ = (place.high - whole_) + place.low;
    if (fraction_ >= 1) {
      whole_ += 1;
      fraction_ = 0;
    }
    whole_ += table.row_offset();
  }

  absl::Status Check() const {
    const bool exact =
        table_.interpolation() == v1::LearnedTable::INTERPOLATION_UNSPECIFIED;
    if (exact && fraction_ != 0) return Outside("is not whole");
    if (table_.boundary() == v1::LearnedTable::BOUNDARY_CLAMP ||
        table_.boundary() == v1::LearnedTable::BOUNDARY_WRAP) {
      return absl::OkStatus();
    }
    const bool nearest =
        table_.interpolation() == v1::LearnedTable::INTERPOLATION_NEAREST;
    const double first =
        nearest ? std::floor(whole_ + fraction_ + 0.5) : whole_;
    const double last = nearest ? first : std::ceil(whole_ + fraction_);
    if (first >= 0 && last < table_.rows()) return absl::OkStatus();
    return Outside(absl::StrCat("is outside ", table_.rows(), " rows"));
  }

  void AddTo(std::vector<double>& vector) {
    if (table_.boundary() != v1::LearnedTable::BOUNDARY_WRAP) {
      if (whole_ < 0) whole_ = fraction_ = 0;
      if (whole_ >= table_.rows() - 1) {
        whole_ = table_.rows() - 1;
        fraction_ = 0;
      }
    }
    const double f = fraction_;
    switch (table_.interpolation()) {
      case v1::LearnedTable::INTERPOLATION_LINEAR:
        AddRow(0, 1 - f, vector);
        AddRow(1, f, vector);
        break;
      case v1::LearnedTable::INTERPOLATION_CUBIC:  // Catmull-Rom
        AddRow(-1, f * (-1 + f * (2 - f)) / 2, vector);
        AddRow(0, 1 + f * f * (3 * f - 5) / 2, vector);
        AddRow(1, f * (1 + f * (4 - 3 * f)) / 2, vector);
        AddRow(2, f * f * (f - 1) / 2, vector);
        break;
      default:
        AddRow(f >= 0.5 ? 1 : 0, 1, vector);
    }
  }

 private:
  absl::Status Outside(const std::string& why) const {
    return absl::OutOfRangeError(
        absl::StrCat("learned_table: row ", whole_ + fraction_, " ", why));
  }

  void AddRow(int offset, double weight, std::vector<double>& vector) const {
    const double rows = table_.rows();
    double row = whole_ + offset;
    row = table_.boundary() == v1::LearnedTable::BOUNDARY_WRAP
              ? row - rows * std::floor(row / rows)
              : std::clamp(row, 0.0, rows - 1);
    for (size_t c = 0; c < vector.size() && weight != 0; ++c) {
      vector[c] += weight * table_.table(static_cast<int>(row) * table_.dim() +
                                         static_cast<int>(c));
    }
  }

  const v1::LearnedTable& table_;
  double whole_, fraction_;
};

}  // namespace

absl::StatusOr<std::vector<double>> AbsoluteParts(
    const v1::Encoding& definition, bool query, int kv_head, int head_dim,
    const Place& place) {
  std::vector<double> sum(head_dim, 0.0);
  for (const v1::Absolute& part : definition.absolutes()) {
    if (part.target() ==
        (query ? v1::Absolute::TARGET_KEY : v1::Absolute::TARGET_QUERY)) {
      continue;
    }
    const DoubleDouble time = place.units_since(part.origin_ticks());
    switch (part.kind_case()) {
      case v1::Absolute::kSinusoidal:
        Add(part.sinusoidal(), time, sum);
        break;
      case v1::Absolute::kTime2Vec: {
        const std::vector<double> vector = Embed(part.time2vec(), time);
        for (int c = 0; c < head_dim; ++c) sum[c] += vector[c];
        break;
      }
      case v1::Absolute::kMtand:
        Add(part.mtand(), query, kv_head, time, sum);
        break;
      case v1::Absolute::kTransformerHawkes:
        Add(part.transformer_hawkes(), time, place.index, sum);
        break;
      case v1::Absolute::kLearnedTable: {
        const v1::LearnedTable& table = part.learned_table();
        const double step = table.has_step() ? table.step() : 1;
        TableRows rows(table, time / DoubleDouble{step, 0});
        if (absl::Status status = rows.Check(); !status.ok()) return status;
        rows.AddTo(sum);
        break;
      }
      case v1::Absolute::KIND_NOT_SET:
        break;
    }
  }
  return sum;
}

double TemperatureOf(const v1::QueryTemperature& temperature, int64_t visible,
                     double elapsed) {
  const double length = temperature.has_length() ? temperature.length() : 8192;
  if (temperature.form() == v1::QueryTemperature::FORM_LOG_LENGTH) {
    if (visible == 0) return 1;
    return std::max(1.0,
                    std::log(static_cast<double>(visible)) / std::log(length));
  }
  const double scale = temperature.has_scale() ? temperature.scale() : 0.1;
  const double steps = std::floor((elapsed + temperature.offset()) / length);
  return steps < 0 ? 1 : 1 + scale * std::log1p(steps);
}

}  // namespace attnd::client::resolved
