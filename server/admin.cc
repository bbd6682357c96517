#include "server/admin.h"

#include <civetweb.h>

#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace attnd::server {
namespace {

void Send(mg_connection* connection, const HttpReply& reply, bool with_body) {
  const std::string head =
      absl::StrCat("HTTP/1.1 ", reply.code, " ",
                   mg_get_response_code_text(connection, reply.code),
                   "\r\nContent-Type: ", reply.content_type,
                   "\r\nContent-Length: ", reply.body.size(),
                   "\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n");
  mg_write(connection, head.data(), head.size());
  if (with_body) mg_write(connection, reply.body.data(), reply.body.size());
}

HttpReply Answer(const Admin::Pages& pages, absl::string_view method,
                 const std::string& path) {
  if (method != "GET" && method != "HEAD") {
    return {.code = 405, .body = "only GET\n"};
  }
  const auto page = pages.find(path);
  if (page == pages.end()) return {.code = 404, .body = "no such page\n"};
  try {
    return page->second();
  } catch (const std::exception& error) {
    return {.code = 500, .body = absl::StrCat(error.what(), "\n")};
  }
}

int HandleRequest(mg_connection* connection, void* pages) {
  const mg_request_info* request = mg_get_request_info(connection);
  const absl::string_view method = request->request_method;
  Send(connection,
       Answer(*static_cast<const Admin::Pages*>(pages), method,
              request->local_uri),
       method != "HEAD");
  return 1;
}

// The library's complaints end in our error message or nowhere.
int DropMessage(const mg_connection*, const char*) { return 1; }

}  // namespace

absl::StatusOr<std::unique_ptr<Admin>> Admin::Listen(const std::string& address,
                                                     Pages pages) {
  std::unique_ptr<Admin> admin(new Admin(std::move(pages)));
  mg_callbacks callbacks = {};
  callbacks.log_message = DropMessage;
  // Two threads: a slow scrape must not hide the probes.
  const char* options[] = {
      "listening_ports",    address.c_str(), "num_threads", "2",
      "request_timeout_ms", "10000",         nullptr};
  admin->context_ = mg_start(&callbacks, nullptr, options);
  if (admin->context_ == nullptr) {
    return absl::UnavailableError(absl::StrCat(
        "admin.address ", address, ": cannot listen (is the port taken?)"));
  }
  mg_server_port port = {};
  if (mg_get_server_ports(admin->context_, 1, &port) != 1) {
    return absl::InternalError("admin.address: no port");
  }
  admin->address_ =
      absl::StrCat(address.substr(0, address.rfind(':')), ":", port.port);
  mg_set_request_handler(admin->context_, "/", HandleRequest,
                         const_cast<Pages*>(&admin->pages_));
  return admin;
}

Admin::~Admin() {
  if (context_ != nullptr) mg_stop(context_);
}

}  // namespace attnd::server
