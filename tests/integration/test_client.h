// A client for tests that shows everything a call brought back. Its interface
// is free of gRPC, whose headers are slow to compile.
#ifndef ATTND_TESTS_INTEGRATION_TEST_CLIENT_H_
#define ATTND_TESTS_INTEGRATION_TEST_CLIENT_H_

#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "attnd/rpc/v1/error_details.pb.h"
#include "attnd/v1/attention.pb.h"

namespace attnd::testing {

// Codes of grpc::StatusCode.
enum Code {
  kOk = 0,
  kCancelled = 1,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kUnauthenticated = 16,
};

struct CallEnd {
  int code = -1;
  std::string message;
  rpc::v1::Status details;
  std::map<std::string, std::string> trailers;
  double seconds = 0;

  bool ok() const { return code == kOk; }
  // The detail google.rpc.<name> into `detail`; false if there is none.
  bool Detail(const std::string& name, google::protobuf::Message& detail) const;
  // "query.shape,key.data": the fields of BadRequest.
  std::string Fields() const;
  // Has RetryInfo.
  bool Retryable() const;
  // ErrorInfo.reason.
  std::string Reason() const;
};

template <typename Reply>
struct Result : CallEnd {
  Reply reply;
};

// A call under way.
class AttendHandle {
 public:
  virtual ~AttendHandle() = default;
  virtual void Cancel() = 0;
  // Waits; fails the test after half a minute.
  virtual const Result<v1::AttendResponse>& Wait() = 0;
  virtual bool ended() const = 0;
};

// An AttendStream call under way.
class StreamHandle {
 public:
  virtual ~StreamHandle() = default;
  // False when the stream is over.
  virtual bool Send(const v1::AttendStreamRequest& request) = 0;
  virtual void CloseSending() = 0;
  virtual void Cancel() = 0;
  // Waits for the next answer; false when there is none any more.
  virtual bool Receive(v1::AttendStreamResponse& response) = 0;
  // Waits for the end; call it after Receive said false.
  virtual CallEnd Finish() = 0;
};
// The status inside an answer.
CallEnd EndOf(const v1::AttendStreamResponse& response);

using Metadata = std::map<std::string, std::string>;
constexpr double kNoDeadline = -1;

class TestClient {
 public:
  // Messages of up to 2 GiB both ways; retries are off, so that every
  // refusal is seen.
  explicit TestClient(const std::string& address);
  // Over TLS, PEM; without a certificate of its own if the last two are empty.
  TestClient(const std::string& address, const std::string& authority,
             const std::string& certificate, const std::string& key);
  ~TestClient();

  Result<v1::AttendResponse> Attend(const v1::AttendRequest& request,
                                    double deadline_seconds = kNoDeadline,
                                    const Metadata& metadata = {});
  std::unique_ptr<AttendHandle> StartAttend(
      const v1::AttendRequest& request, double deadline_seconds = kNoDeadline,
      const Metadata& metadata = {});
  Result<v1::EstimateResponse> Estimate(const v1::AttendRequest& request);
  Result<v1::ListEncodingsResponse> ListEncodings(
      const v1::ListEncodingsRequest& request = {});
  Result<v1::GetServerInfoResponse> GetServerInfo();
  std::unique_ptr<StreamHandle> AttendStream();
  // A unary call of any method with any bytes.
  CallEnd CallRaw(const std::string& method, const std::string& bytes,
                  std::string* reply = nullptr);
  // The same with the message compressed by gzip.
  CallEnd CallGzip(const std::string& method, const std::string& bytes);

  // grpc.health.v1: 1 SERVING, 2 NOT_SERVING; the call's code otherwise,
  // negated.
  int Health(const std::string& service);
  // Calls `seen` with every status that a Watch brings, until destroyed.
  class Watch;
  std::unique_ptr<Watch> WatchHealth(const std::string& service,
                                     std::function<void(int)> seen);
  // Names that the reflection service lists.
  std::string ReflectedServices();

 private:
  struct Parts;
  CallEnd Call(const std::string& method, const std::string& bytes, bool gzip,
               std::string* reply);
  std::unique_ptr<Parts> parts_;
};

class TestClient::Watch {
 public:
  virtual ~Watch() = default;
};

}  // namespace attnd::testing

#endif  // ATTND_TESTS_INTEGRATION_TEST_CLIENT_H_
