#include "kernels/bias.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/float16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/bias.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// row[c] += per_tick * (|query - key[c]| - nearest), the subtractions in the
// representation of time (T = int64_t: exact).
template <typename T>
void AddLags(T query, const T* HWY_RESTRICT key, T nearest, double per_tick,
             int64_t begin, int64_t end, float* HWY_RESTRICT row) {
  int64_t c = begin;
#if HWY_TARGET != HWY_SCALAR
  const hn::CappedTag<double, 8> df64;
  const hn::Rebind<T, decltype(df64)> dt;
  const hn::Rebind<float, decltype(df64)> df32;
  const int64_t n = hn::Lanes(df64);
  const auto q = hn::Set(dt, query), near = hn::Set(dt, nearest);
  const auto by = hn::Set(df64, per_tick);
  for (; c + n <= end; c += n) {
    const auto lag = hn::Sub(hn::Abs(hn::Sub(q, hn::LoadU(dt, key + c))), near);
    hn::Vec<decltype(df64)> real;
    if constexpr (std::is_same_v<T, double>) {
      real = lag;
    } else {
      real = hn::ConvertTo(df64, lag);
    }
    const auto bias = hn::DemoteTo(df32, hn::Mul(real, by));
    hn::StoreU(hn::Add(hn::LoadU(df32, row + c), bias), df32, row + c);
  }
#endif
  for (; c < end; ++c) {
    const T lag = query - key[c];
    row[c] += static_cast<float>(
        per_tick * static_cast<double>((lag < 0 ? -lag : lag) - nearest));
  }
}

void AddLagsTicks(int64_t query, const int64_t* key, int64_t nearest,
                  double per_tick, int64_t begin, int64_t end, float* row) {
  AddLags(query, key, nearest, per_tick, begin, end, row);
}
void AddLagsReal(double query, const double* key, double nearest,
                 double per_tick, int64_t begin, int64_t end, float* row) {
  AddLags(query, key, nearest, per_tick, begin, end, row);
}

}  // namespace HWY_NAMESPACE
}  // namespace attnd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnd {
namespace {

HWY_EXPORT(AddLagsTicks);
HWY_EXPORT(AddLagsReal);

template <typename T>
struct Times {
  const T* query;
  const T* key;
};

template <typename T>
T Size(T lag) {
  return lag < 0 ? -lag : lag;
}

// Smallest |lag| among the visible keys of the i-th query; it sees at least
// one.
template <typename T>
T NearestLag(const ItemGeometry& item, const Times<T>& times, int64_t i) {
  const T* begin = times.key + item.begin[i];
  const T* end = times.key + item.end[i];
  const T t = times.query[i];
  const T* after = std::upper_bound(begin, end, t);
  if (after == begin) return Size(t - *after);
  if (after == end) return Size(t - *(after - 1));
  return std::min(Size(t - *after), Size(t - *(after - 1)));
}

template <typename T>
bool SplitLags(const ItemGeometry& item, const Times<T>& times, double per_tick,
               int64_t i, int64_t rows, int64_t first, int64_t last,
               float* column, float* row) {
  const bool past = times.key[last - 1] <= times.query[i];
  const bool future = times.key[first] >= times.query[i + rows - 1];
  if (!past && !future) return false;
  // The border of the tile that faces the queries.
  const T border = past ? times.key[last - 1] : times.key[first];
  for (int64_t c = 0; c < last - first; ++c) {
    column[c] = static_cast<float>(
        per_tick * static_cast<double>(Size(border - times.key[first + c])));
  }
  for (int64_t r = 0; r < rows; ++r) {
    const T lag = Size(times.query[i + r] - border);
    row[r] = item.begin[i + r] >= item.end[i + r]
                 ? 0.0f
                 : static_cast<float>(
                       per_tick * static_cast<double>(
                                      lag - NearestLag(item, times, i + r)));
  }
  return true;
}

Times<int64_t> Ticks(const ItemGeometry& item) {
  return {item.query_ticks.data(), item.key_ticks.data()};
}
Times<double> Real(const ItemGeometry& item) {
  return {item.query_real.data(), item.key_real.data()};
}

}  // namespace

double LinearBias::Reference(int64_t i) const {
  if (item->begin[i] >= item->end[i]) return 0;
  return per_tick *
         (item->exact ? static_cast<double>(NearestLag(*item, Ticks(*item), i))
                      : NearestLag(*item, Real(*item), i));
}

void LinearBias::AddToRow(int64_t i, int64_t first, int64_t begin, int64_t end,
                          float* row) const {
  if (begin >= end) return;
  if (item->exact) {
    HWY_DYNAMIC_DISPATCH(AddLagsTicks)
    (item->query_ticks[i], item->key_ticks.data() + first,
     NearestLag(*item, Ticks(*item), i), per_tick, begin, end, row);
  } else {
    HWY_DYNAMIC_DISPATCH(AddLagsReal)
    (item->query_real[i], item->key_real.data() + first,
     NearestLag(*item, Real(*item), i), per_tick, begin, end, row);
  }
}

bool LinearBias::Split(int64_t i, int64_t rows, int64_t first, int64_t last,
                       float* column, float* row) const {
  return item->exact ? SplitLags(*item, Ticks(*item), per_tick, i, rows, first,
                                 last, column, row)
                     : SplitLags(*item, Real(*item), per_tick, i, rows, first,
                                 last, column, row);
}

namespace {

// One query row of a broadcast bias tensor, element by element.
class BiasRow {
 public:
  BiasRow(const TensorRef& bias, int64_t batch, int64_t head, int64_t row)
      : dtype_(bias.dtype()),
        bytes_(bias.Row(bias.shape().batch == 1 ? 0 : batch,
                        bias.shape().heads == 1 ? 0 : head,
                        bias.shape().rows == 1 ? 0 : row)),
        step_(bias.shape().cols == 1 ? 0 : ElementBytes(dtype_)) {}
  float At(int64_t key_row) const {
    return LoadElement(dtype_, bytes_ + key_row * step_);
  }

 private:
  DType dtype_;
  const char* bytes_;
  int64_t step_;
};

}  // namespace

float BiasElement(const TensorRef& bias, int64_t batch, int64_t head,
                  int64_t query_row, int64_t key_row) {
  return BiasRow(bias, batch, head, query_row).At(key_row);
}

void AddTensorBias(const TensorRef& bias, const ItemGeometry& item,
                   int64_t batch, int64_t head, int64_t query_row,
                   int64_t first, int64_t begin, int64_t end, float* row) {
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  const BiasRow values(bias, batch, head, query_row);
  for (int64_t c = begin; c < end; ++c) {
    const float value = values.At(item.KeyRow(first + c));
    // Assigned, not added: the logit of a hidden key may be NaN.
    row[c] = value == kHidden ? kHidden : row[c] + value;
  }
}

}  // namespace attnd
#endif  // HWY_ONCE
