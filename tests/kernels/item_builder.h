// Geometries for tests of biases: times whose gaps span many decades, seen
// under a mask, without tensors around them.
#ifndef ATTND_TESTS_KERNELS_ITEM_BUILDER_H_
#define ATTND_TESTS_KERNELS_ITEM_BUILDER_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/tensor.h"
#include "kernels/visibility.h"
#include "tests/kernels/problem_builder.h"

namespace attnd::testing {

// Visible keys of each query: causal by time, or all.
inline void FillVisible(bool causal, ItemGeometry* item) {
  item->begin.assign(item->query_rows, 0);
  item->end.assign(item->query_rows, static_cast<int32_t>(item->key_rows));
  if (!causal) return;
  for (int64_t i = 0; i < item->query_rows; ++i) {
    const auto count = [](const auto& keys, auto query) {
      return std::upper_bound(keys.begin(), keys.end(), query) - keys.begin();
    };
    item->end[i] = static_cast<int32_t>(
        item->exact ? count(item->key_ticks, item->query_ticks[i])
                    : count(item->key_real, item->query_real[i]));
  }
}

// Ticks in order; rebased as MakeGeometry would.
inline ItemGeometry TickItem(std::vector<int64_t> query,
                             std::vector<int64_t> key, bool causal) {
  std::sort(query.begin(), query.end());
  std::sort(key.begin(), key.end());
  ItemGeometry item;
  item.query_rows = static_cast<int64_t>(query.size());
  item.key_rows = static_cast<int64_t>(key.size());
  int64_t first = query.empty() ? key[0] : query[0];
  if (!key.empty()) first = std::min(first, key[0]);
  for (int64_t& t : query) t -= first;
  for (int64_t& t : key) t -= first;
  item.query_ticks = std::move(query);
  item.key_ticks = std::move(key);
  FillVisible(causal, &item);
  return item;
}

inline ItemGeometry RealItem(std::vector<double> query, std::vector<double> key,
                             bool causal) {
  std::sort(query.begin(), query.end());
  std::sort(key.begin(), key.end());
  ItemGeometry item;
  item.exact = false;
  item.query_rows = static_cast<int64_t>(query.size());
  item.key_rows = static_cast<int64_t>(key.size());
  item.real_reference = query.empty() ? key[0] : query[0];
  if (!key.empty()) item.real_reference = std::min(item.real_reference, key[0]);
  item.query_real = std::move(query);
  item.key_real = std::move(key);
  FillVisible(causal, &item);
  return item;
}

// Times with gaps log-uniform in [10^low, 10^high] ticks, some of them 0.
inline std::vector<int64_t> LogUniformTimes(Random& random, int64_t count,
                                            double low, double high) {
  std::vector<int64_t> times;
  double t = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (random.Integer(0, 9) != 0) {
      t += std::pow(10.0, low + (high - low) * random.Uniform());
    }
    times.push_back(static_cast<int64_t>(t));
  }
  return times;
}

// Queries and keys from one such line, shifted against each other a little.
inline ItemGeometry LogUniformItem(Random& random, int64_t queries,
                                   int64_t keys, double low, double high,
                                   bool causal, bool exact = true) {
  std::vector<int64_t> all = LogUniformTimes(random, queries + keys, low, high);
  std::vector<int64_t> query, key;
  for (const int64_t t : all) {
    const bool to_query =
        static_cast<int64_t>(key.size()) == keys ||
        (static_cast<int64_t>(query.size()) < queries && random.Coin());
    (to_query ? query : key).push_back(t);
  }
  if (exact) return TickItem(query, key, causal);
  // A real axis in seconds, ticks being ns.
  std::vector<double> real_query, real_key;
  for (const int64_t t : query) real_query.push_back(1.7e9 + t * 1e-9);
  for (const int64_t t : key) real_key.push_back(1.7e9 + t * 1e-9);
  return RealItem(real_query, real_key, causal);
}

// Gates [1,1,Lk,1] over values that stay.
inline TensorRef GateTensor(const std::vector<float>& values) {
  const auto count = static_cast<int64_t>(values.size());
  return *TensorRef::Make(
      absl::MakeConstSpan(reinterpret_cast<const char*>(values.data()),
                          count * sizeof(float)),
      DType::kF32, Layout::kBHLD,
      {.batch = 1, .heads = 1, .rows = count, .cols = 1});
}

}  // namespace attnd::testing

#endif  // ATTND_TESTS_KERNELS_ITEM_BUILDER_H_
