// The HTTP port for machines that watch: /metrics, /livez, /readyz, /version.
#ifndef ATTND_SERVER_ADMIN_H_
#define ATTND_SERVER_ADMIN_H_

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

struct mg_context;

namespace attnd::server {

struct HttpReply {
  int code = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

// Answers GET and HEAD on fixed paths, everything else with 404 or 405.
class Admin {
 public:
  // Path -> answer; called on threads of its own.
  using Pages = std::map<std::string, std::function<HttpReply()>>;

  // Listens on "host:port"; port 0 picks a free one. UNAVAILABLE when the port
  // is taken.
  static absl::StatusOr<std::unique_ptr<Admin>> Listen(
      const std::string& address, Pages pages);
  // Waits for requests under way.
  ~Admin();

  // "host:port" with the real port.
  const std::string& address() const { return address_; }

 private:
  explicit Admin(Pages pages) : pages_(std::move(pages)) {}

  const Pages pages_;
  std::string address_;
  mg_context* context_ = nullptr;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_ADMIN_H_
