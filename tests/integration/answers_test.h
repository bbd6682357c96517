// A server with plain encodings, asked for every output, and requests small
// enough that their answers are closed forms.
#ifndef ATTND_TESTS_INTEGRATION_ANSWERS_TEST_H_
#define ATTND_TESTS_INTEGRATION_ANSWERS_TEST_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/integration/service_test.h"
#include "tests/server/requests.h"

namespace attnd::testing {

inline constexpr char kAnswersEncodings[] = R"(
encodings:
  - {name: rope, time_unit: 1s, blocks: [{rotary: {pair_layout: half_split}}]}
  - name: rope_interleaved
    time_unit: 1s
    blocks: [{rotary: {pair_layout: interleaved}}]
  - name: turn
    time_unit: 1s
    blocks: [{rotation: {frequencies: [1], pair_layout: half_split}}]
  - {name: alibi, time_unit: 1s, biases: [{alibi: {}}]}
  - {name: decay, time_unit: 1s, biases: [{alibi: {slopes: [1]}}]}
  - {name: decay_minute, time_unit: 1min, biases: [{alibi: {slopes: [1]}}]}
  - {name: decay_100ns, time_unit: 100ns, biases: [{alibi: {slopes: [1]}}]}
  - name: both_sides
    time_unit: 1s
    biases: [{alibi: {slopes: [1], two_sided: true}}]
  - name: steps
    time_unit: position
    biases: [{alibi: {slopes: [1]}}]
)";

struct Answer {
  std::vector<float> output, lse, scores, weights;
};

class AnswersTest : public ServiceTest {
 protected:
  void SetUp() override { Start(kAnswersEncodings); }

  // Asks for everything.
  Answer Ask(v1::AttendRequest request) {
    request.clear_outputs();
    for (const v1::Output output : {v1::OUTPUT_OUTPUT, v1::OUTPUT_LSE,
                                    v1::OUTPUT_SCORES, v1::OUTPUT_WEIGHTS}) {
      request.add_outputs(output);
    }
    const auto result = client_->Attend(request);
    EXPECT_TRUE(result.ok()) << result.code << ": " << result.message;
    return {FromBytes<float>(result.reply.output().data()),
            FromBytes<float>(result.reply.lse().data()),
            FromBytes<float>(result.reply.scores().data()),
            FromBytes<float>(result.reply.weights().data())};
  }
};

// B = H = 1, scale 1.
inline v1::AttendRequest One(const std::vector<std::vector<float>>& query,
                             const std::vector<std::vector<float>>& key,
                             const std::vector<std::vector<float>>& value) {
  v1::AttendRequest request;
  const auto set = [](const std::vector<std::vector<float>>& rows,
                      v1::Tensor& tensor) {
    std::vector<float> flat;
    for (const auto& row : rows)
      flat.insert(flat.end(), row.begin(), row.end());
    SetTensor({1, 1, static_cast<int64_t>(rows.size()),
               static_cast<int64_t>(rows[0].size())},
              flat, tensor);
  };
  set(query, *request.mutable_query());
  set(key, *request.mutable_key());
  set(value, *request.mutable_value());
  request.set_scale(1);
  return request;
}

// Q = 0: the scores are the biases alone.
inline v1::AttendRequest OnlyBiases(size_t queries,
                                    const std::vector<float>& values) {
  std::vector<std::vector<float>> rows;
  for (float v : values) rows.push_back({v});
  return One(std::vector<std::vector<float>>(queries, {0}),
             std::vector<std::vector<float>>(values.size(), {0}), rows);
}

inline v1::AttendRequest TwoByThree() {
  v1::AttendRequest request =
      One({{1, 0}, {0, 1}}, {{1, 0}, {0, 1}, {1, 1}}, {{1, 2}, {3, 4}, {5, 6}});
  request.set_scale(static_cast<float>(1 / std::sqrt(2.0)));
  return request;
}

inline void SetTimes(const std::vector<int64_t>& query,
                     const std::vector<int64_t>& key, v1::TickUnit unit,
                     v1::AttendRequest& request) {
  SetTicks(query, unit, *request.mutable_query_time());
  SetTicks(key, unit, *request.mutable_key_time());
}

inline void SetCausal(v1::AttendRequest& request) {
  request.mutable_mask()->set_causal(v1::CAUSALITY_TIME);
}

#define EXPECT_ALL_NEAR(actual, expected, tolerance)                \
  do {                                                              \
    const std::vector<float> a_ = (actual), e_ = (expected);        \
    ASSERT_EQ(a_.size(), e_.size());                                \
    for (size_t i_ = 0; i_ < a_.size(); ++i_) {                     \
      if (std::isinf(e_[i_])) {                                     \
        EXPECT_EQ(a_[i_], e_[i_]) << "element " << i_;              \
      } else {                                                      \
        EXPECT_NEAR(a_[i_], e_[i_], tolerance) << "element " << i_; \
      }                                                             \
    }                                                               \
  } while (false)

}  // namespace attnd::testing

#endif  // ATTND_TESTS_INTEGRATION_ANSWERS_TEST_H_
