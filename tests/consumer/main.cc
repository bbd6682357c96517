// Uses the installed client library: builds a request, and calls a port where
// nobody listens.  Exit 0 when that is refused as documented.

#include <iostream>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "attnd/v1/attention.pb.h"
#include "client/client.h"

int main() {
  absl::StatusOr<attnd::client::Client> client =
      attnd::client::Client::Create({.endpoints = {"127.0.0.1:1"}});
  if (!client.ok()) {
    std::cerr << client.status() << "\n";
    return 1;
  }
  attnd::v1::AttendRequest request;
  request.set_request_id("consumer");
  const absl::Status status =
      client->Attend(request, {.timeout = absl::Seconds(20)}).status();
  std::cout << status << "\n";
  return absl::IsUnavailable(status) ? 0 : 1;
}
