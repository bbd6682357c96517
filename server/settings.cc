#include "server/settings.h"

#include <fstream>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace attnd::server {
namespace {

// Shorter ones can be guessed; longer ones are no headers.
constexpr size_t kMinTokenBytes = 16;
constexpr size_t kMaxTokenBytes = 4096;

absl::StatusOr<std::string> ReadToken(const std::string& file) {
  if (file.empty()) return std::string();
  std::ifstream stream(file);
  std::stringstream text;
  text << stream.rdbuf();
  const std::string token(absl::StripAsciiWhitespace(text.str()));
  if (!stream || token.size() < kMinTokenBytes ||
      token.size() > kMaxTokenBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("security.bearer_token_file: ", file, ": expected ",
                     kMinTokenBytes, " to ", kMaxTokenBytes, " bytes of text"));
  }
  return token;
}

}  // namespace

std::vector<std::string> NamedFiles(const v1::ServerConfig& config) {
  const std::string& token = config.security().bearer_token_file();
  if (token.empty()) return {};
  return {token};
}

Settings::Settings(const Config& c, std::string token, const Settings* before)
    : config(c),
      encodings(config.effective.encodings(),
                config.effective.inline_encodings().cache_entries()),
      tenants(config.effective.tenants(),
              before == nullptr ? nullptr : &before->tenants),
      bearer_token(std::move(token)),
      generation(before == nullptr ? 1 : before->generation + 1) {}

bool Settings::Outdated() const {
  const absl::StatusOr<std::string> token =
      ReadToken(config.effective.security().bearer_token_file());
  return token.ok() && *token != bearer_token;
}

absl::StatusOr<std::shared_ptr<const Settings>> Settings::Make(
    const Config& config, const Settings* before) {
  absl::StatusOr<std::string> token =
      ReadToken(config.effective.security().bearer_token_file());
  if (!token.ok()) return token.status();
  return std::shared_ptr<const Settings>(
      new Settings(config, *std::move(token), before));
}

}  // namespace attnd::server
