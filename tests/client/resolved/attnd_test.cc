// A real attnd against client/resolved: every encoding of the example
// configuration, judged by the numbers that the server itself lists.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "client/random.h"
#include "client/request.h"
#include "client/resolved/attention.h"
#include "client/resolved/generator.h"
#include "tests/client/attnd_process.h"

namespace attnd::client::resolved {
namespace {

constexpr int kDim = 64, kHeads = 4, kKvHeads = 2, kBatch = 2;

// Times of a request: gaps log-uniform between the two, in units.
struct Gaps {
  const char* name;
  double shortest, longest;
};

v1::ListEncodingsRequest SizesOf(int dim, int heads, int kv_heads,
                                 int64_t length = 0) {
  v1::ListEncodingsRequest request;
  request.set_head_dim(dim);
  request.set_query_heads(heads);
  request.set_kv_heads(kv_heads);
  request.set_length(length);
  return request;
}

class RequestBuilder {
 public:
  RequestBuilder(const v1::ResolvedEncoding& encoding, uint64_t seed)
      : encoding_(encoding), random_(seed) {
    for (const v1::ResolvedGenerator& generator : encoding.generators()) {
      for (const v1::ResolvedBlock& block : generator.blocks()) Look(block);
    }
    for (const v1::Bias& bias : encoding.definition().biases()) {
      gates_ |= bias.has_cumulative_gate() || bias.has_path_integral();
    }
  }

  v1::AttendRequest Build(int queries, int keys, const Gaps& gaps) {
    v1::AttendRequest request;
    request.set_encoding(encoding_.name());
    *request.mutable_query() = Normal({kBatch, kHeads, queries, kDim});
    *request.mutable_key() = Normal({kBatch, kKvHeads, keys, kDim});
    *request.mutable_value() = Normal({kBatch, kKvHeads, keys, 8});
    *request.mutable_query_time() = Times(queries, gaps);
    *request.mutable_key_time() = Times(keys, gaps);
    if (clock_channels_ > 0) {
      *request.mutable_query_clock() = Clock(queries);
      *request.mutable_key_clock() = Clock(keys);
    }
    if (gates_) {
      v1::Tensor gates = Uniform({kBatch, kHeads, keys}, -0.5, 0);
      *request.mutable_gates() = gates;
    }
    if (encoding_.causal_only()) {
      request.mutable_mask()->set_causal(v1::CAUSALITY_TIME);
    }
    for (v1::Output output : {v1::OUTPUT_OUTPUT, v1::OUTPUT_LSE,
                              v1::OUTPUT_SCORES, v1::OUTPUT_WEIGHTS}) {
      request.add_outputs(output);
    }
    return request;
  }

 private:
  template <typename Message>
  void LookAtDrive(const Message& drive) {
    if (drive.clock() == v1::CLOCK_REQUEST) {
      clock_channels_ = std::max(clock_channels_, drive.clock_channel() + 1);
    } else {
      coordinates_ = std::max(coordinates_, drive.coordinate() + 1);
    }
  }

  void Look(const v1::ResolvedBlock& block) {
    LookAtDrive(block);
    if (block.has_decay_drive()) LookAtDrive(block.decay_drive());
    for (const v1::ResolvedTerm& term : block.further()) LookAtDrive(term);
  }

  template <typename Draw>
  v1::Tensor Filled(const std::vector<int64_t>& shape, const Draw& draw) {
    int64_t count = 1;
    for (int64_t extent : shape) count *= extent;
    std::vector<double> values(count);
    for (double& x : values) x = draw();
    return *MakeTensor(values, shape);
  }
  v1::Tensor Normal(const std::vector<int64_t>& shape) {
    return Filled(shape, [&] { return random_.Normal(); });
  }
  v1::Tensor Uniform(const std::vector<int64_t>& shape, double low,
                     double high) {
    return Filled(shape,
                  [&] { return low + (high - low) * random_.Uniform(); });
  }

  // Increasing, so that decays along it are decays.
  v1::Tensor Clock(int rows) {
    std::vector<double> values;
    for (int h = 0; h < kBatch * kKvHeads; ++h) {
      std::vector<double> at(clock_channels_, 0.0);
      for (int i = 0; i < rows; ++i) {
        for (double& x : at) {
          values.push_back(x);
          // f32 without rounding.
          x += static_cast<double>(random_.Below(256)) / 256;
        }
      }
    }
    return *MakeTensor(values, {kBatch, kKvHeads, rows, clock_channels_});
  }

  // Sorted within an item, with ties; nanoseconds from a day of 2023 on, or
  // positions.
  v1::TimeAxis Times(int rows, const Gaps& gaps) {
    const bool positions = encoding_.unit_nanoseconds() == 0;
    const double unit = positions ? 1 : encoding_.unit_nanoseconds();
    std::vector<int64_t> ticks;
    for (int b = 0; b < kBatch; ++b) {
      std::vector<int64_t> at(coordinates_,
                              positions ? 0 : 1'700'000'000'000'000'000);
      for (int i = 0; i < rows; ++i) {
        for (int64_t& t : at) {
          ticks.push_back(t);
          const double share = random_.Uniform();
          const double gap = unit * gaps.shortest *
                             std::pow(gaps.longest / gaps.shortest, share);
          t += static_cast<int64_t>(std::min(gap, 1e17));
        }
      }
    }
    std::vector<int64_t> shape = {kBatch, rows};
    if (coordinates_ > 1) shape.push_back(coordinates_);
    return *MakeTimeAxis(
        ticks, positions ? v1::TICK_UNIT_POSITIONS : v1::TICK_UNIT_NANOSECONDS,
        shape, coordinates_);
  }

  const v1::ResolvedEncoding& encoding_;
  Random random_;
  int coordinates_ = 1, clock_channels_ = 0;
  bool gates_ = false;
};

// Largest error of what a response holds, as a share of its bound.
struct Worst {
  double output = 0, lse = 0, scores = 0, weights = 0;
};

double Share(double got, double expected, double bound) {
  if (got == expected) return 0;
  const double share = std::abs(got - expected) / bound;
  return std::isnan(share) ? HUGE_VAL : share;
}

Worst Compare(const v1::AttendResponse& response, const Answer& answer,
              double condition) {
  const std::vector<float> output = *ToFloats(response.output());
  const std::vector<float> lse = *ToFloats(response.lse());
  const std::vector<float> scores = *ToFloats(response.scores());
  const std::vector<float> weights = *ToFloats(response.weights());
  Worst worst;
  for (size_t r = 0; r < answer.lse.size(); ++r) {
    const auto row = static_cast<int64_t>(r);
    const double logit = condition * LogitBound(answer, row);
    const double score = condition * ScoreBound(answer, row);
    worst.lse = std::max(worst.lse, Share(lse[r], answer.lse[r], score));
    for (int64_t c = row * answer.channels; c < (row + 1) * answer.channels;
         ++c) {
      worst.output =
          std::max(worst.output, Share(output[c], answer.output[c],
                                       condition * OutputBound(answer, row)));
    }
    for (int64_t j = row * answer.keys; j < (row + 1) * answer.keys; ++j) {
      worst.scores =
          std::max(worst.scores, Share(scores[j], answer.scores[j], score));
      worst.weights =
          std::max(worst.weights, Share(weights[j], answer.weights[j], logit));
    }
  }
  return worst;
}

double ConditionOf(const v1::ResolvedEncoding& encoding) {
  double condition = 1;
  for (const v1::ResolvedGenerator& generator : encoding.generators()) {
    condition = std::max(condition, generator.condition());
  }
  return condition;
}

class ResolvedAttnd : public ::testing::Test {
 protected:
  v1::ResolvedEncoding Show(const std::string& name,
                            v1::ListEncodingsRequest request) {
    request.add_names(name);
    const auto list = client_.ListEncodings(request);
    EXPECT_TRUE(list.ok()) << name << ": " << list.status();
    return list.ok() ? list->encodings(0) : v1::ResolvedEncoding();
  }

  void Judge(const v1::ResolvedEncoding& encoding,
             const v1::AttendRequest& request, const std::string& what) {
    SCOPED_TRACE(absl::StrCat(encoding.name(), ", ", what));
    const auto response = client_.Attend(request);
    ASSERT_TRUE(response.ok()) << response.status();
    const v1::ResolvedEncoding* one = &encoding;
    const auto answer = Attention(request, absl::MakeConstSpan(&one, 1));
    ASSERT_TRUE(answer.ok()) << answer.status();
    const Worst worst = Compare(*response, *answer, ConditionOf(encoding));
    EXPECT_LE(worst.output, 1);
    EXPECT_LE(worst.lse, 1);
    EXPECT_LE(worst.scores, 1);
    EXPECT_LE(worst.weights, 1);
  }

  AttndProcess server_{"deploy/encodings.yaml"};
  Client client_ = *Client::Create({.endpoints = {server_.target()}});
};

TEST_F(ResolvedAttnd, EveryFamilyKeepsTheAccuracyContract) {
  const auto list = client_.ListEncodings(SizesOf(kDim, kHeads, kKvHeads, 24));
  ASSERT_TRUE(list.ok()) << list.status();
  uint64_t seed = 0;
  for (const v1::ResolvedEncoding& encoding : list->encodings()) {
    ASSERT_EQ(encoding.misfit(), "") << encoding.name();
    for (const Gaps& gaps :
         {Gaps{"a unit apart", 0.5, 2}, Gaps{"six decades", 1e-3, 1e3},
          Gaps{"up to years", 1e-9, 1e9}}) {
      RequestBuilder builder(encoding, ++seed);
      v1::AttendRequest request = builder.Build(20, 24, gaps);
      Judge(encoding, request, gaps.name);
      if (!encoding.causal_only()) continue;
      request.clear_mask();
      request.set_two_sided(v1::TWO_SIDED_RULE_ABSOLUTE_LAG);
      Judge(encoding, request, absl::StrCat(gaps.name, ", two-sided"));
    }
  }
}

}  // namespace
}  // namespace attnd::client::resolved
