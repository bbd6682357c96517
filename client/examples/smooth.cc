// Smooths a short series with irregular times through attnd:
//
//   example_smooth HOST:PORT
//
// Each value becomes the mean of itself and all before it, weighted by age
// under the encoding "nearby_days" of attnd.yaml beside this file.

#include <cstdint>
#include <iostream>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/client.h"
#include "client/error_details.h"
#include "client/request.h"

namespace c = attnd::client;

absl::StatusOr<std::vector<float>> Smooth(const c::Client& client,
                                          absl::Span<const float> values,
                                          absl::Span<const int64_t> times_ns) {
  const int64_t n = static_cast<int64_t>(values.size());
  const std::vector<float> zeros(n);  // q = k = 0: weights by time alone
  auto query = c::MakeTensor(zeros, {1, 1, n, 1});
  auto value = c::MakeTensor(values, {1, 1, n, 1});
  auto times = c::MakeTimeAxis(times_ns, attnd::v1::TICK_UNIT_NANOSECONDS);
  if (!query.ok()) return query.status();
  if (!value.ok()) return value.status();
  if (!times.ok()) return times.status();

  attnd::v1::AttendRequest request;
  *request.mutable_query() = *query;
  *request.mutable_key() = *std::move(query);
  *request.mutable_value() = *std::move(value);
  *request.mutable_query_time() = *times;
  *request.mutable_key_time() = *std::move(times);
  request.set_encoding("nearby_days");
  request.mutable_mask()->set_causal(attnd::v1::CAUSALITY_TIME);

  auto answer = client.Attend(request, {.timeout = absl::Seconds(5)});
  if (!answer.ok()) return answer.status();
  return c::ToFloats(answer->output());
}

int main(int argc, char** argv) {
  auto client = c::Client::Create(
      {.endpoints = {argc > 1 ? argv[1] : "127.0.0.1:50051"}});
  if (!client.ok()) {
    std::cerr << client.status() << "\n";
    return 1;
  }
  constexpr int64_t kHour = 3'600'000'000'000;
  const std::vector<float> values = {1, 2, 4, 8};
  const std::vector<int64_t> times_ns = {0, 5 * kHour, 6 * kHour, 90 * kHour};
  const auto smooth = Smooth(*client, values, times_ns);
  if (!smooth.ok()) {
    std::cerr << smooth.status() << "\n";
    for (const auto& v : c::GetErrorDetails(smooth.status()).field_violations) {
      std::cerr << v.field << ": " << v.description << "\n";
    }
    return 1;
  }
  for (float value : *smooth) std::cout << value << "\n";
}
