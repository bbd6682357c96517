#include "tests/client/stub_attention.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "absl/strings/str_cat.h"

namespace attnd::client {
namespace {

template <typename T>
std::vector<T> Elements(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

void Append(double value, v1::Tensor* tensor) {
  const float rounded = static_cast<float>(value);
  tensor->mutable_data()->append(reinterpret_cast<const char*>(&rounded), 4);
}

double Logit(const StubEncoding& encoding, const float* q, const float* k,
             int64_t dim, double scale, double lag) {
  double sum = 0;
  for (int64_t c = 0; c < dim; ++c) {
    const size_t plane = c / 2;
    if (c % 2 == 0 && plane < encoding.periods.size()) {
      const double angle = 2 * std::numbers::pi * lag / encoding.periods[plane];
      sum += q[c] * (std::cos(angle) * k[c] + std::sin(angle) * k[c + 1]) +
             q[c + 1] * (std::cos(angle) * k[c + 1] - std::sin(angle) * k[c]);
      ++c;
    } else {
      sum += static_cast<double>(q[c]) * k[c];
    }
  }
  return scale * sum - encoding.slope * std::abs(lag);
}

}  // namespace

StubEncodings Co2Encodings() {
  constexpr double kYear = 365.25 * 86400e9;
  return {{"co2", {.unit_ns = kYear, .periods = {1, 0.5}, .slope = 0.2}},
          {"co2_level", {.unit_ns = kYear, .slope = 8}}};
}

grpc::Status StubAttend(const StubEncodings& encodings,
                        const v1::AttendRequest& request,
                        v1::AttendResponse* response) {
  const auto found = encodings.find(request.encoding());
  if (found == encodings.end()) {
    return Refusal(
        grpc::StatusCode::NOT_FOUND,
        absl::StrCat("encoding: unknown '", request.encoding(), "'"));
  }
  const int64_t dim = request.query().shape(3);
  const auto q = Elements<float>(request.query().data());
  const auto k = Elements<float>(request.key().data());
  const auto v = Elements<float>(request.value().data());
  const auto tq = Elements<int64_t>(request.query_time().data());
  const auto tk = Elements<int64_t>(request.key_time().data());
  const bool causal = request.mask().causal() == v1::CAUSALITY_TIME;
  for (v1::Tensor* tensor :
       {response->mutable_output(), response->mutable_lse()}) {
    tensor->set_dtype(v1::DTYPE_F32);
  }
  for (int64_t axis :
       {int64_t{1}, int64_t{1}, static_cast<int64_t>(tq.size())}) {
    response->mutable_output()->add_shape(axis);
    response->mutable_lse()->add_shape(axis);
  }
  response->mutable_output()->add_shape(1);
  for (size_t i = 0; i < tq.size(); ++i) {
    std::vector<double> logits(tk.size());
    double highest = -std::numeric_limits<double>::infinity();
    for (size_t j = 0; j < tk.size(); ++j) {
      const double lag =
          static_cast<double>(tq[i] - tk[j]) / found->second.unit_ns;
      logits[j] = causal && tk[j] > tq[i]
                      ? -std::numeric_limits<double>::infinity()
                      : Logit(found->second, &q[i * dim], &k[j * dim], dim,
                              request.scale(), lag);
      highest = std::max(highest, logits[j]);
    }
    double sum = 0, mean = 0;
    for (size_t j = 0; std::isfinite(highest) && j < tk.size(); ++j) {
      const double weight = std::exp(logits[j] - highest);
      sum += weight;
      mean += weight * v[j];
    }
    Append(sum > 0 ? mean / sum : 0, response->mutable_output());
    Append(highest + std::log(sum), response->mutable_lse());
  }
  return grpc::Status::OK;
}

void ServeAttention(const StubEncodings& encodings, StubService* stub) {
  stub->on_attend = [encodings](int, const v1::AttendRequest& request,
                                v1::AttendResponse* response) {
    return StubAttend(encodings, request, response);
  };
  stub->on_list = [encodings](const v1::ListEncodingsRequest& request,
                              v1::ListEncodingsResponse* response) {
    for (const auto& [name, encoding] : encodings) {
      if (!request.names().empty() && request.names(0) != name) continue;
      v1::ResolvedEncoding* resolved = response->add_encodings();
      resolved->set_name(name);
      resolved->set_summary("stub");
      resolved->set_head_dim(request.head_dim() > 0 ? request.head_dim() : 64);
      resolved->mutable_definition()->set_time_unit("365.25d");
      v1::ResolvedGenerator* generator = resolved->add_generators();
      for (size_t plane = 0; plane < encoding.periods.size(); ++plane) {
        v1::ResolvedBlock* block = generator->add_blocks();
        block->set_kind("rotation");
        block->add_channels(2 * static_cast<int>(plane));
        block->add_channels(2 * static_cast<int>(plane) + 1);
      }
    }
    if (response->encodings().empty()) {
      return Refusal(grpc::StatusCode::NOT_FOUND, "names: unknown encoding");
    }
    return grpc::Status::OK;
  };
}

}  // namespace attnd::client
