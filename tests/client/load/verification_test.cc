#include "client/load/verification.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "client/files.h"
#include "client/load/verify_kept.h"
#include "client/load/workload.h"
#include "client/request.h"
#include "tests/client/stub_service.h"

namespace attnd::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

v1::AttendRequest Request(int64_t queries = 5) {
  v1::AttendRequest request = MakeRequests({.batch = 2,
                                            .heads = 2,
                                            .kv_heads = 1,
                                            .queries = queries,
                                            .keys = 7,
                                            .dim = 4,
                                            .value_dim = 3,
                                            .distinct = 1})
                                  .value()[0];
  request.add_outputs(v1::OUTPUT_LSE);
  return request;
}

v1::AttendRequest KeyMassRequest(int64_t queries) {
  v1::AttendRequest request = Request(queries);
  request.clear_outputs();
  request.add_outputs(v1::OUTPUT_KEY_MASS);
  return request;
}

// The tensor with another value at one place.
v1::Tensor Changed(const v1::Tensor& tensor, size_t place, float by) {
  std::vector<float> values = *ToFloats(tensor);
  values[place] += by;
  return *MakeTensor(values, std::vector<int64_t>(tensor.shape().begin(),
                                                  tensor.shape().end()));
}

// Attention without an encoding, straight from its definition.
v1::AttendResponse Answer(const v1::AttendRequest& request) {
  const std::vector<float> q = *ToFloats(request.query());
  const std::vector<float> k = *ToFloats(request.key());
  const std::vector<float> v = *ToFloats(request.value());
  const int64_t rows = request.query().shape(2);
  std::vector<double> output;
  std::vector<double> lse;
  std::vector<double> mass(2 * 2 * 7);
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t h = 0; h < 2; ++h) {
      for (int64_t i = 0; i < rows; ++i) {
        double sum = 0;
        double mean[3] = {};
        double weights[7];
        for (int64_t j = 0; j < 7; ++j) {
          double dot = 0;
          for (int64_t c = 0; c < 4; ++c) {
            dot += static_cast<double>(q[((b * 2 + h) * rows + i) * 4 + c]) *
                   k[(b * 7 + j) * 4 + c];
          }
          const double weight = weights[j] = std::exp(dot / 2);
          sum += weight;
          for (int64_t c = 0; c < 3; ++c) {
            mean[c] += weight * v[(b * 7 + j) * 3 + c];
          }
        }
        for (double value : mean) output.push_back(value / sum);
        lse.push_back(std::log(sum));
        for (int64_t j = 0; j < 7; ++j) {
          mass[(b * 2 + h) * 7 + j] += weights[j] / sum;
        }
      }
    }
  }
  v1::AttendResponse answer;
  *answer.mutable_output() = *MakeTensor(output, {2, 2, rows, 3});
  *answer.mutable_lse() = *MakeTensor(lse, {2, 2, rows});
  *answer.mutable_key_mass() = *MakeTensor(mass, {2, 2, 7});
  return answer;
}

class Verify : public ::testing::Test {
 protected:
  double Share(const v1::AttendRequest& request,
               const v1::AttendResponse& answer) {
    const auto reference = Reference(request, client_);
    EXPECT_TRUE(reference.ok()) << reference.status();
    const auto share = ErrorShare(request, answer, *reference);
    EXPECT_TRUE(share.ok()) << share.status();
    return share.value_or(-1);
  }

  StubService stub_;
  Client client_ = *Client::Create(
      {.endpoints = {stub_.address()}, .timeout = absl::Seconds(30)});
};

TEST_F(Verify, RightAnswersPass) {
  const v1::AttendRequest request = Request();
  EXPECT_LE(Share(request, Answer(request)), 0.2);
}

TEST_F(Verify, OneWrongValueIsFound) {
  const v1::AttendRequest request = Request();
  for (bool in_output : {true, false}) {
    v1::AttendResponse answer = Answer(request);
    v1::Tensor* tensor =
        in_output ? answer.mutable_output() : answer.mutable_lse();
    std::vector<float> values = *ToFloats(*tensor);
    values[values.size() / 2] += 1e-4f;
    *tensor = *MakeTensor(values, std::vector<int64_t>(tensor->shape().begin(),
                                                       tensor->shape().end()));
    EXPECT_GT(Share(request, answer), 5);
    values[3] = std::nanf("");
    *tensor = *MakeTensor(values, std::vector<int64_t>(tensor->shape().begin(),
                                                       tensor->shape().end()));
    EXPECT_TRUE(std::isinf(Share(request, answer)));
  }
}

TEST_F(Verify, AnswersInBf16HaveItsBound) {
  const v1::AttendRequest request = Request();
  v1::AttendResponse answer = Answer(request);
  std::vector<float> values = *ToFloats(answer.output());
  values[3] += 1e-3f;
  const auto& shape = answer.output().shape();
  *answer.mutable_output() =
      *MakeTensor(values, std::vector<int64_t>(shape.begin(), shape.end()));
  EXPECT_GT(Share(request, answer), 5);
  answer.mutable_stats()->set_compute(v1::COMPUTE_PRECISION_BF16);
  EXPECT_LE(Share(request, answer), 1);
}

TEST_F(Verify, EntropyIsLookedAt) {
  v1::AttendRequest request = Request();
  // All queries alike: every row is uniform over 7 keys.
  request.set_scale(0);
  request.clear_outputs();
  request.add_outputs(v1::OUTPUT_ENTROPY);
  v1::AttendResponse answer;
  const int64_t rows = request.query().shape(2);
  const std::vector<int64_t> shape = {2, 2, rows};
  std::vector<float> entropies(4 * rows, std::log(7.0f));
  *answer.mutable_entropy() = *MakeTensor(entropies, shape);
  EXPECT_LE(Share(request, answer), 0.2);
  entropies[1] += 1e-3f;
  *answer.mutable_entropy() = *MakeTensor(entropies, shape);
  EXPECT_GT(Share(request, answer), 5);
}

// A server that lies about one column.
TEST_F(Verify, OneWrongColumnSumIsFound) {
  const v1::AttendRequest request = KeyMassRequest(40);
  std::optional<size_t> lie;
  stub_.on_attend = [&](int, const v1::AttendRequest& asked,
                        v1::AttendResponse* response) {
    *response = Answer(asked);
    if (lie) {
      *response->mutable_key_mass() =
          Changed(response->key_mass(), *lie, *lie % 2 == 0 ? 1e-2f : -1e-2f);
    }
    return grpc::Status::OK;
  };
  EXPECT_LE(Share(request, *client_.Attend(request)), 0.2);
  for (const size_t place : {0, 13, 27}) {
    lie = place;
    EXPECT_GT(Share(request, *client_.Attend(request)), 5) << place;
  }
}

TEST_F(Verify, SumsOverMoreRowsThanAreCheckedAreBounded) {
  const v1::AttendRequest request = KeyMassRequest(400'000);
  const auto reference = Reference(request, client_);
  ASSERT_TRUE(reference.ok()) << reference.status();
  ASSERT_LT(reference->rows.size(), 400'000u);
  const v1::AttendResponse right = Answer(request);
  EXPECT_EQ(*ErrorShare(request, right, *reference), 0);
  const float sum = ToFloats(right.key_mass()).value()[5];
  for (const float by : {-sum, 400'001 - sum}) {
    v1::AttendResponse wrong = right;
    *wrong.mutable_key_mass() = Changed(right.key_mass(), 5, by);
    EXPECT_GT(*ErrorShare(request, wrong, *reference), 5) << by;
  }
}

TEST_F(Verify, AMissingOutputIsAFault) {
  const v1::AttendRequest request = Request();
  const auto reference = Reference(request, client_);
  EXPECT_FALSE(ErrorShare(request, {}, *reference).ok());
}

TEST_F(Verify, LargeRequestsAreCheckedInSomeRows) {
  const v1::AttendRequest request = Request(100'000);
  const auto reference = Reference(request, client_);
  ASSERT_TRUE(reference.ok()) << reference.status();
  EXPECT_LT(reference->rows.size(), 100'000u);
  EXPECT_EQ(reference->rows.front(), 0);
  EXPECT_EQ(reference->rows.back(), 99'999);
  EXPECT_LE(Share(request, Answer(request)), 0.2);
}

KeptAnswer Keep(int number, const v1::AttendResponse& answer) {
  grpc::Slice slice(answer.SerializeAsString());
  return KeptAnswer{number, grpc::ByteBuffer(&slice, 1)};
}

// The stub knows no encoding; what names none is verified all the same.
TEST_F(Verify, AnswersWithoutAReferenceAreCountedAndTheRestIsChecked) {
  std::vector<v1::AttendRequest> requests = {Request(), Request(3), Request(4)};
  const v1::AttendResponse right = Answer(requests[2]);
  requests[0].set_encoding("nobody knows");
  requests[1].set_encoding("this either");
  int asked = 0;
  stub_.on_list = [&](const v1::ListEncodingsRequest&,
                      v1::ListEncodingsResponse*) {
    ++asked;
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone");
  };
  std::vector<KeptAnswer> kept = {Keep(0, right), Keep(0, right),
                                  Keep(1, right), Keep(2, right)};
  const std::string prefix = ::testing::TempDir() + "unverifiable";
  const Verification found =
      VerifyKept(std::move(kept), {&requests[0], &requests[1], &requests[2]},
                 client_, prefix, nullptr);
  EXPECT_EQ(found.checked, 1);
  EXPECT_EQ(found.wrong, 0);
  EXPECT_EQ(found.unverifiable, 3);
  EXPECT_FALSE(found.Passed());
  EXPECT_EQ(asked, 1);
  // Each request once.
  ASSERT_EQ(found.unverified.size(), 2u);
  EXPECT_THAT(found.unverified[1],
              AllOf(HasSubstr("UNAVAILABLE: gone"),
                    HasSubstr("--replay " + prefix + "-2.pb")));
  v1::AttendRequest saved;
  ASSERT_TRUE(saved.ParseFromString(*ReadFile(prefix + "-2.pb")));
  EXPECT_EQ(saved.encoding(), "this either");
}

TEST_F(Verify, WrongAnswersAreCountedAndTheirRequestsSaved) {
  const std::vector<v1::AttendRequest> requests = {Request(), Request(3)};
  std::vector<KeptAnswer> kept = {
      Keep(1, Answer(requests[1])), Keep(0, Answer(requests[0])),
      Keep(1, Answer(requests[0])), Keep(1, Answer(requests[1]))};
  const std::string prefix = ::testing::TempDir() + "mismatch";
  const Verification found = VerifyKept(
      std::move(kept), {&requests[0], &requests[1]}, client_, prefix, nullptr);
  EXPECT_EQ(found.checked, 4);
  EXPECT_EQ(found.wrong, 1);
  EXPECT_EQ(found.unverifiable, 0);
  ASSERT_EQ(found.mismatches.size(), 1u);
  EXPECT_THAT(found.mismatches[0], HasSubstr("--replay " + prefix + "-1.pb"));
  v1::AttendRequest saved;
  ASSERT_TRUE(saved.ParseFromString(*ReadFile(prefix + "-1.pb")));
  EXPECT_EQ(saved.SerializeAsString(), requests[1].SerializeAsString());
}

}  // namespace
}  // namespace attnd::client
