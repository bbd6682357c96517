// Scores an endless irregular stream in pieces, carrying a state:
//
//   example_stream HOST:PORT [EVENTS]
//
// Events come at irregular times. For each, attnd answers the mean of all
// values so far, faded by e^-0.1 per hour: the linear kind under the encoding
// "fading" of attnd.yaml beside this file. Pieces hold some events each; what
// is kept between them is one state of a few hundred bytes, however long the
// stream. Prints the last mean and what it should be.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "client/request.h"

namespace c = attnd::client;
namespace v1 = attnd::v1;

constexpr int64_t kHour = 3'600'000'000'000;

// Some events: a value each, and when.
struct Piece {
  std::vector<float> values;
  std::vector<int64_t> times_ns;
};

// Stands for whatever a program would wait for: gaps from seconds to days.
Piece NextEvents(int64_t count, uint64_t* random, int64_t* now_ns) {
  Piece piece;
  for (int64_t i = 0; i < count; ++i) {
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    const double uniform = static_cast<double>(*random >> 11) * 0x1p-53;
    *now_ns += static_cast<int64_t>(std::pow(10.0, 5 * uniform) * 1e9);
    piece.times_ns.push_back(*now_ns);
    piece.values.push_back(static_cast<float>(uniform));
  }
  return piece;
}

// Means at the events of a piece; replaces *state by the one after them.
absl::StatusOr<std::vector<float>> Score(const c::Client& client,
                                         const Piece& piece,
                                         v1::LinearState* state) {
  const int64_t n = static_cast<int64_t>(piece.values.size());
  const std::vector<float> ones(n, 1);  // q = k = 1: weights by time alone
  auto one = c::MakeTensor(ones, {1, 1, n, 1});
  auto value = c::MakeTensor(piece.values, {1, 1, n, 1});
  auto times = c::MakeTimeAxis(piece.times_ns, v1::TICK_UNIT_NANOSECONDS);
  if (!one.ok()) return one.status();
  if (!value.ok()) return value.status();
  if (!times.ok()) return times.status();
  v1::AttendRequest request;
  *request.mutable_query() = *one;
  *request.mutable_key() = *std::move(one);
  *request.mutable_value() = *std::move(value);
  *request.mutable_query_time() = *times;
  *request.mutable_key_time() = *std::move(times);
  request.set_encoding("fading");
  request.set_kind(v1::ATTENTION_KIND_LINEAR);
  v1::LinearOptions* linear = request.mutable_linear();
  linear->set_normaliser(v1::LinearOptions::NORMALISER_SUM);
  linear->set_return_state(true);
  if (state->version() != 0) *linear->mutable_initial_state() = *state;
  auto answer = client.Attend(request, {.timeout = absl::Seconds(5)});
  if (!answer.ok()) return answer.status();
  *state = answer->final_state();
  return c::ToFloats(answer->output());
}

int main(int argc, char** argv) {
  auto client = c::Client::Create(
      {.endpoints = {argc > 1 ? argv[1] : "127.0.0.1:50051"}});
  if (!client.ok()) {
    std::cerr << client.status() << "\n";
    return 1;
  }
  const int64_t events = argc > 2 ? std::atoll(argv[2]) : 1000;
  uint64_t random = 1;
  int64_t now_ns = 1'700'000'000'000'000'000, last_ns = now_ns;
  v1::LinearState state;
  double sum = 0, weight = 0;  // the same mean by hand
  float mean = 0;
  for (int64_t done = 0; done < events;) {
    // Pieces of 1 to 40 events, as they happen to come.
    const int64_t count = std::min<int64_t>(1 + done % 40, events - done);
    const Piece piece = NextEvents(count, &random, &now_ns);
    const auto means = Score(*client, piece, &state);
    if (!means.ok()) {
      std::cerr << means.status() << "\n";
      return 1;
    }
    for (int64_t i = 0; i < count; ++i) {
      const double hours =
          static_cast<double>(piece.times_ns[i] - last_ns) / kHour;
      last_ns = piece.times_ns[i];
      sum = sum * std::exp(-0.1 * hours) + piece.values[i];
      weight = weight * std::exp(-0.1 * hours) + 1;
    }
    mean = means->back();
    done += count;
  }
  std::cout << mean << " " << sum / weight << " " << state.ByteSizeLong()
            << "\n";
}
