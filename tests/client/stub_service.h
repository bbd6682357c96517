// An AttentionScoring server in the test's own process, on a free port, whose
// answers the test decides.
#ifndef ATTND_TESTS_CLIENT_STUB_SERVICE_H_
#define ATTND_TESTS_CLIENT_STUB_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "attnd/v1/attention.grpc.pb.h"
#include "google/protobuf/message.h"

namespace attnd::client {

// One Attend call as the server saw it.
struct Arrival {
  std::chrono::steady_clock::time_point time;
  // Value of x-attnd-previous-attempts; empty on a first attempt.
  std::string previous_attempts;
  std::string tenant;
};

class StubService final : public v1::AttentionScoring::CallbackService {
 public:
  template <typename Request, typename Response>
  using Handler = std::function<grpc::Status(const Request&, Response*)>;

  explicit StubService(std::shared_ptr<grpc::ServerCredentials> credentials =
                           grpc::InsecureServerCredentials(),
                       const std::string& address = "127.0.0.1:0");
  ~StubService() override;

  // "127.0.0.1:port".
  const std::string& address() const { return address_; }

  // Sent as grpc-retry-pushback-ms with every Attend that is not OK, unless
  // empty.
  std::string pushback_ms;

  // Answers; set them before the first call. Without a handler: OK and empty.
  // `number` counts Attend calls from 0.
  std::function<grpc::Status(int number, const v1::AttendRequest&,
                             v1::AttendResponse*)>
      on_attend;
  Handler<v1::ListEncodingsRequest, v1::ListEncodingsResponse> on_list;
  Handler<v1::GetServerInfoRequest, v1::GetServerInfoResponse> on_info;
  // Attend answers this long after it arrived, without holding a thread; with
  // `on_delay` each call has its own.
  absl::Duration delay;
  std::function<absl::Duration(int number)> on_delay;

  // Of the whole server, for the health protocol; at first serving.
  void SetServing(bool serving);

  // Attend calls so far, and the connections they came from.
  std::vector<Arrival> arrivals() const;
  int connections() const;

 private:
  grpc::ServerUnaryReactor* Attend(grpc::CallbackServerContext* context,
                                   const v1::AttendRequest* request,
                                   v1::AttendResponse* response) override;
  grpc::ServerBidiReactor<v1::AttendStreamRequest, v1::AttendStreamResponse>*
  AttendStream(grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* ListEncodings(
      grpc::CallbackServerContext* context,
      const v1::ListEncodingsRequest* request,
      v1::ListEncodingsResponse* response) override;
  grpc::ServerUnaryReactor* GetServerInfo(
      grpc::CallbackServerContext* context,
      const v1::GetServerInfoRequest* request,
      v1::GetServerInfoResponse* response) override;

  int Note(const grpc::CallbackServerContext& context);
  absl::Duration DelayOf(int number) const {
    return on_delay ? on_delay(number) : delay;
  }

  mutable std::mutex mutex_;
  std::vector<Arrival> arrivals_;
  std::set<std::string> peers_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

// google.rpc details for a refusal.
struct Detail {
  std::string name;  // "RetryInfo"
  std::string bytes;
};
Detail RetryAfter(absl::Duration delay);
Detail DetailOf(const std::string& name,
                const google::protobuf::Message& message);

// A status as the server sends it, with grpc-status-details-bin.
grpc::Status Refusal(grpc::StatusCode code, const std::string& text,
                     const std::vector<Detail>& details = {});

}  // namespace attnd::client

#endif  // ATTND_TESTS_CLIENT_STUB_SERVICE_H_
