// A million rows through the linear kind: in pieces with a carried state under
// the default limits, and in one request where the message limit allows it.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/proof/proof_test.h"
#include "tests/server/requests.h"

namespace attnd::testing {
namespace {

constexpr int64_t kDim = 64;
constexpr double kSlowest = 0.02;      // rate per second
constexpr int64_t kRemembered = 3000;  // rows until that decay is below e^-40
constexpr int64_t kSecond = 1'000'000'000;

constexpr char kFade[] =
    "encodings: [{name: fade, time_unit: 1s, blocks: [{component_decay: "
    "{rates: [";

double RateOf(int64_t channel) {
  return kSlowest * std::pow(1e3, static_cast<double>(channel) / (kDim - 1.0));
}

std::string Configuration() {
  std::string text = kFade;
  for (int64_t c = 0; c < kDim; ++c) {
    absl::StrAppend(&text, c > 0 ? ", " : "",
                    absl::StrFormat("%.17g", RateOf(c)));
  }
  return text + "]}}]}]\n";
}

// Elements of an endless stream, [-1, 1), by where they stand (splitmix64).
float Element(int which, int64_t row, int64_t channel) {
  uint64_t z = static_cast<uint64_t>((row * kDim + channel) * 3 + which) *
               0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return static_cast<float>(static_cast<int64_t>(z >> 8) - (int64_t{1} << 55)) *
         0x1p-55f;
}

// From 0.5 to 1.5 s apart.
int64_t TimeOf(int64_t row) {
  return row * kSecond +
         static_cast<int64_t>(0.25 * kSecond * Element(0, row, 0));
}

v1::AttendRequest Rows(int64_t first, int64_t last) {
  v1::AttendRequest request;
  request.set_kind(v1::ATTENTION_KIND_LINEAR);
  request.set_encoding("fade");
  request.set_scale(1);
  int which = 0;
  for (v1::Tensor* tensor : {request.mutable_query(), request.mutable_key(),
                             request.mutable_value()}) {
    std::vector<float> values;
    values.reserve((last - first) * kDim);
    for (int64_t row = first; row < last; ++row) {
      for (int64_t c = 0; c < kDim; ++c) {
        values.push_back(Element(which, row, c));
      }
    }
    SetTensor({1, 1, last - first, kDim}, values, *tensor);
    ++which;
  }
  std::vector<int64_t> times;
  for (int64_t row = first; row < last; ++row) times.push_back(TimeOf(row));
  for (auto* axis :
       {request.mutable_query_time(), request.mutable_key_time()}) {
    SetTicks(times, v1::TICK_UNIT_NANOSECONDS, *axis);
  }
  return request;
}

// What the contract measures by, and the answer, of channel 0.
struct Exact {
  double value = 0, size = 0;
};
Exact ExactAt(int64_t row) {
  Exact out;
  for (int64_t j = std::max<int64_t>(0, row - kRemembered); j <= row; ++j) {
    const double lag = 1e-9 * static_cast<double>(TimeOf(row) - TimeOf(j));
    double dot = 0, size = 0;
    for (int64_t c = 0; c < kDim; ++c) {
      const double term = static_cast<double>(Element(0, row, c)) *
                          Element(1, j, c) * std::exp(-RateOf(c) * lag);
      dot += term;
      size += std::abs(term);
    }
    out.value += dot * Element(2, j, 0);
    out.size += size * std::abs(Element(2, j, 0));
  }
  return out;
}

class LinearProof : public ProofTest {
 protected:
  static int64_t rows() { return full() ? 1'000'000 : 100'000; }

  v1::AttendResponse Ask(const v1::AttendRequest& request) {
    auto result = client_->Attend(request);
    EXPECT_TRUE(result.ok()) << result.code << ": " << result.message;
    seconds_ += result.seconds;
    worker_seconds_ += result.reply.stats().compute_seconds();
    return std::move(result.reply);
  }

  // Channel 0 of an answer to rows [first, ...), against the sum over what it
  // remembers, at some of them.
  void Check(const std::string& output, int64_t first) {
    const auto* values = reinterpret_cast<const float*>(output.data());
    const int64_t count =
        static_cast<int64_t>(output.size() / sizeof(float)) / kDim;
    for (int64_t i = 0; i < count; i += 9973) {
      const Exact exact = ExactAt(first + i);
      worst_ = std::max(worst_,
                        std::abs(values[i * kDim] - exact.value) / exact.size);
    }
  }

  void ShowSeconds(const std::string& how) {
    Show(how + ": s", seconds_);
    Show(how + ": of that in workers, s", worker_seconds_);
    Show(how + ": ns a row in workers",
         1e9 * worker_seconds_ / static_cast<double>(rows()));
    seconds_ = worker_seconds_ = 0;
  }

  double seconds_ = 0, worker_seconds_ = 0, worst_ = 0;
};

TEST_F(LinearProof, AMillionRows) {
  Start(Configuration());
  Show("rows", static_cast<double>(rows()));
  constexpr int64_t kPiece = 100'000;  // 77 MiB of 128
  v1::LinearState state;
  for (int64_t first = 0; first < rows(); first += kPiece) {
    v1::AttendRequest request = Rows(first, first + kPiece);
    request.mutable_linear()->set_return_state(true);
    if (first > 0) *request.mutable_linear()->mutable_initial_state() = state;
    const v1::AttendResponse reply = Ask(request);
    state = reply.final_state();
    Check(reply.output().data(), first);
  }
  EXPECT_EQ(state.keys(0), rows());
  ShowSeconds("in pieces");
  Show("state, bytes", static_cast<double>(state.ByteSizeLong()));
  AtMost("largest error over its size", worst_, 1e-5, 1e-5);
}

TEST_F(LinearProof, AMillionRowsInOneRequest) {
  Start(absl::StrCat("limits: {message_bytes: 2147483647}\n", Configuration()));
  const v1::AttendRequest request = Rows(0, rows());
  Show("request, bytes", static_cast<double>(request.ByteSizeLong()));
  const v1::AttendResponse reply = Ask(request);
  ShowSeconds("in one request");
  Check(reply.output().data(), 0);
  AtMost("largest error over its size", worst_, 1e-5, 1e-5);
}

}  // namespace
}  // namespace attnd::testing
