// Requests for tests.
#ifndef ATTND_TESTS_SERVER_REQUESTS_H_
#define ATTND_TESTS_SERVER_REQUESTS_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "attnd/v1/attention.pb.h"

namespace attnd::testing {

struct Sizes {
  int64_t batch = 1, query_heads = 1, kv_heads = 1;
  int64_t queries = 2, keys = 3;
  int64_t dim = 4, value_dim = 4;
};

template <typename T>
std::string ToBytes(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()),
                     values.size() * sizeof(T));
}

template <typename T>
std::vector<T> FromBytes(const std::string& bytes) {
  const T* first = reinterpret_cast<const T*>(bytes.data());
  return std::vector<T>(first, first + bytes.size() / sizeof(T));
}

// f32, BHLD, shape as given; `values` must have as many elements.
inline void SetTensor(const std::vector<int64_t>& shape,
                      const std::vector<float>& values, v1::Tensor& tensor) {
  tensor.set_dtype(v1::DTYPE_F32);
  tensor.mutable_shape()->Clear();
  tensor.mutable_shape()->Add(shape.begin(), shape.end());
  tensor.set_data(ToBytes(values));
}

inline void SetRandom(const std::vector<int64_t>& shape, std::mt19937& random,
                      v1::Tensor& tensor) {
  size_t count = 1;
  for (int64_t extent : shape) count *= static_cast<size_t>(extent);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& x : values) x = normal(random);
  SetTensor(shape, values, tensor);
}

inline v1::AttendRequest MakeRequest(const Sizes& s, int seed = 1) {
  std::mt19937 random(seed);
  v1::AttendRequest request;
  SetRandom({s.batch, s.query_heads, s.queries, s.dim}, random,
            *request.mutable_query());
  SetRandom({s.batch, s.kv_heads, s.keys, s.dim}, random,
            *request.mutable_key());
  SetRandom({s.batch, s.kv_heads, s.keys, s.value_dim}, random,
            *request.mutable_value());
  return request;
}

// [L] ticks.
inline void SetTicks(const std::vector<int64_t>& ticks, v1::TickUnit unit,
                     v1::TimeAxis& axis) {
  axis.set_type(v1::TIME_TYPE_INT64_TICKS);
  axis.mutable_shape()->Clear();
  axis.add_shape(static_cast<int64_t>(ticks.size()));
  axis.mutable_units()->Clear();
  axis.add_units(unit);
  axis.set_data(ToBytes(ticks));
}

// [L] binary64 seconds.
inline void SetReal(const std::vector<double>& times, v1::TimeAxis& axis) {
  axis.set_type(v1::TIME_TYPE_F64);
  axis.mutable_shape()->Clear();
  axis.add_shape(static_cast<int64_t>(times.size()));
  axis.mutable_units()->Clear();
  axis.set_data(ToBytes(times));
}

}  // namespace attnd::testing

#endif  // ATTND_TESTS_SERVER_REQUESTS_H_
