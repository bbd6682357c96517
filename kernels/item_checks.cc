#include "kernels/item_checks.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/absolute_rows.h"
#include "kernels/bias.h"
#include "kernels/cumulative_bias.h"
#include "kernels/field_checks.h"
#include "kernels/free_places.h"
#include "kernels/growth_check.h"

namespace attnd {
namespace {

std::string TimeText(const ItemGeometry& item, int64_t i, int64_t j) {
  return absl::StrCat("query row ", item.QueryRow(i), " and key row ",
                      item.KeyRow(j), " have lag ", item.Lag(i, j));
}

// Negative visible lags under an encoding that has none.
absl::Status CheckOneSided(const ItemGeometry& item, int64_t number) {
  int64_t bad = 0;
  std::string first;
  for (int64_t i = 0; i < item.query_rows; ++i) {
    // The latest visible key, and from it on down to the first in the future.
    int64_t j = item.end[i] - 1, offender = -1;
    for (; j >= item.begin[i] && item.Lag(i, j) < 0; --j) {
      if (!item.Sees(i, j)) continue;
      offender = j;
      if (bad > 0) break;
    }
    if (offender < 0) continue;
    if (bad++ == 0) first = TimeText(item, i, offender);
  }
  if (bad == 0) return absl::OkStatus();
  return RefuseField(
      "encoding",
      absl::StrCat("is defined for lag >= 0 only, but in item ", number, " ",
                   first, " (", bad,
                   " such queries); set mask.causal to CAUSALITY_TIME "
                   "or two_sided to TWO_SIDED_RULE_ABSOLUTE_LAG"));
}

absl::Status CheckBiasValues(const AttentionProblem& p,
                             const ItemGeometry& item, int64_t batch) {
  for (int64_t h = 0; h < p.query.shape().heads; ++h) {
    for (int64_t i = 0; i < item.query_rows; ++i) {
      for (int64_t j = item.begin[i]; j < item.end[i]; ++j) {
        const float value =
            BiasElement(p.bias, batch, h, item.QueryRow(i), item.KeyRow(j));
        if (value < std::numeric_limits<float>::infinity() ||
            !item.Sees(i, j)) {
          continue;
        }
        return RefuseField(
            "bias",
            absl::StrCat("element [", batch, ",", h, ",", item.QueryRow(i), ",",
                         item.KeyRow(j), "]: ", value,
                         ", expected finite or -inf where the "
                         "pair is visible"));
      }
    }
  }
  return absl::OkStatus();
}

// Values of one clock channel along the item's order: finite, and where decays
// follow it, never running backwards nor from a query to a key it sees.
absl::Status CheckClockOrder(const AttentionProblem& p, const Encoder& encoder,
                             const Drive& drive, bool decays,
                             const ItemGeometry& item, int64_t batch,
                             int64_t head) {
  const auto value = [&](const TensorRef& clock, int64_t row) {
    std::vector<float> values(clock.shape().cols);
    clock.LoadRow(batch, head, row, values.data());
    return values[drive.clock_channel];
  };
  const auto where = [&](int64_t row) {
    return absl::StrCat("element [", batch, ",", head, ",", row, ",",
                        drive.clock_channel, "]: ");
  };
  const auto check = [&](absl::string_view field, int64_t row, float u,
                         float last) {
    if (!std::isfinite(u)) {
      return RefuseField(field,
                         absl::StrCat(where(row), u, ", expected finite"));
    }
    if (!decays || u >= last) return absl::OkStatus();
    return RefuseField(
        field, absl::StrCat(where(row), u, " runs backwards from ", last,
                            "; a decaying block needs a clock that never "
                            "falls along time"));
  };
  float last_key = -std::numeric_limits<float>::infinity();
  std::vector<float> keys;
  for (int64_t j = 0; j < item.key_rows; ++j) {
    const float u = value(p.key_clock, item.KeyRow(j));
    absl::Status status = check("key_clock", item.KeyRow(j), u, last_key);
    if (!status.ok()) return status;
    keys.push_back(last_key = u);
  }
  float last_query = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < item.query_rows; ++i) {
    const float u = value(p.query_clock, item.QueryRow(i));
    absl::Status status = check("query_clock", item.QueryRow(i), u, last_query);
    if (!status.ok()) return status;
    if (!decays) continue;
    last_query = u;
    if (encoder.absolute_lag()) continue;
    for (int64_t j = item.end[i]; j-- > item.begin[i] && keys[j] > u;) {
      if (!item.Sees(i, j)) continue;
      return RefuseField(
          "query_clock",
          absl::StrCat(where(item.QueryRow(i)), u,
                       " lies before the clock of a visible key, ", keys[j]));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckDrives(const AttentionProblem& p, const Encoder& encoder,
                         const ItemGeometry& item, int64_t batch) {
  for (size_t s = 0; s < encoder.sources().size(); ++s) {
    const Drive& drive = encoder.sources()[s];
    for (int64_t h = 0; h < p.key.shape().heads; ++h) {
      const bool decays = DecaysAlong(encoder.head(h), static_cast<int>(s));
      if (drive.clock) {
        absl::Status status =
            CheckClockOrder(p, encoder, drive, decays, item, batch, h);
        if (!status.ok()) return status;
      } else if (drive.coordinate > 0 && decays && !encoder.absolute_lag()) {
        return RefuseField(
            "encoding",
            absl::StrCat("a block decays along coordinate ", drive.coordinate,
                         ", which causality does not order; set "
                         "two_sided to TWO_SIDED_RULE_ABSOLUTE_LAG"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool DecaysAlong(const HeadEncoder& head, int source) {
  for (size_t i = 0; i < head.rates().size(); ++i) {
    if (head.chain_sources()[i] == source &&
        (head.rates()[i] != 0 || head.couplings()[i] != 0)) {
      return true;
    }
  }
  for (const HeadEncoder::Small& small : head.smalls()) {
    if (small.source == source) return true;
  }
  return false;
}

absl::Status CheckItem(const Plan& plan, int64_t number) {
  const AttentionProblem& problem = plan.problem();
  const Encoder* encoder = plan.encoder(number);
  const ItemGeometry& item = plan.item(number);
  const int64_t batch = plan.batch(number);
  if (encoder != nullptr) {
    if (encoder->one_sided()) {
      absl::Status status = CheckOneSided(item, number);
      if (!status.ok()) return status;
    }
    absl::Status status =
        CheckGrowth(*encoder, problem.key.shape().heads, item, number);
    if (!status.ok()) return status;
    status = CheckDrives(problem, *encoder, item, batch);
    if (!status.ok()) return status;
    status = CheckAbsoluteRows(problem, *encoder, item, number);
    if (!status.ok()) return status;
    status = CheckFreePlaces(problem, *encoder, item, number);
    if (!status.ok()) return status;
    if (encoder->gate_weights().any()) {
      status = CheckGates(problem.gates, item, batch);
      if (!status.ok()) return status;
    }
  }
  if (problem.bias.shape() == Shape4{}) return absl::OkStatus();
  return CheckBiasValues(problem, item, batch);
}

}  // namespace attnd
