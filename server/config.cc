#include "server/config.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "google/protobuf/util/json_util.h"
#include "proto/wire.h"
#include "server/encodings.h"
#include "server/hash.h"
#include "server/listener_config.h"
#include "server/status.h"
#include "server/tenants.h"
#include "server/text.h"
#include "server/violations.h"
#include "server/yaml_proto.h"

namespace attnd::server {
namespace {

constexpr size_t kMaxFaults = 20;
constexpr size_t kMaxNameBytes = 64;

// A limit that is absent (0) gets its default; one outside [low, high] is
// reported.
template <typename T>
T Limit(absl::string_view field, T value, T fallback, T low, T high,
        Violations& violations) {
  if (value == 0) return fallback;
  if (!(value >= low && value <= high)) {
    violations.Add(absl::StrCat("limits.", field),
                   absl::StrCat(value, ", expected ", low, " to ", high));
  }
  return value;
}

void CompleteLimits(const Machine& machine, v1::Limits& limits,
                    Violations& violations) {
  const auto count = [&](absl::string_view field, int64_t value,
                         int64_t fallback, int64_t high) {
    return Limit<int64_t>(field, value, fallback, 1, high, violations);
  };
  const auto seconds = [&](absl::string_view field, double value,
                           double fallback) {
    return Limit<double>(field, value, fallback, 1e-3, 1e6, violations);
  };
  // gRPC counts message bytes, and the kernels rows, in 32 bits.
  constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();
  limits.set_message_bytes(count("message_bytes", limits.message_bytes(),
                                 wire::kDefaultMessageBytes, kInt32Max));
  limits.set_queue_worker_seconds(
      seconds("queue_worker_seconds", limits.queue_worker_seconds(), 2));
  limits.set_queue_bytes(count("queue_bytes", limits.queue_bytes(),
                               machine.UsableMemory() / 4, int64_t{1} << 50));
  limits.set_request_worker_seconds(
      seconds("request_worker_seconds", limits.request_worker_seconds(), 60));
  limits.set_batch(count("batch", limits.batch(), 65536, kInt32Max));
  limits.set_rows(count("rows", limits.rows(), 4194304, kInt32Max));
  limits.set_heads(count("heads", limits.heads(), 1024, 1 << 20));
  limits.set_dim(count("dim", limits.dim(), 1024, 1 << 20));
  limits.set_stream_inflight(
      count("stream_inflight", limits.stream_inflight(), 16, 1 << 20));
  limits.set_streams_per_connection(count(
      "streams_per_connection", limits.streams_per_connection(), 32, 1 << 20));
  limits.set_deadline_seconds(
      seconds("deadline_seconds", limits.deadline_seconds(), 300));
  limits.set_queue_requests(
      count("queue_requests", limits.queue_requests(), 4096, 1 << 20));
  limits.set_receive_bytes(count("receive_bytes", limits.receive_bytes(),
                                 machine.UsableMemory() / 4, int64_t{1} << 50));
  limits.set_connections(
      count("connections", limits.connections(), 4096, 1 << 20));
}

// An allow-list of identities needs certificates to compare with.
void CheckSecurity(const v1::ServerConfig& config, Violations& violations) {
  const v1::Security& security = config.security();
  const std::set<std::string> known = {"Attend",        "AttendStream",
                                       "Estimate",      "ListEncodings",
                                       "GetServerInfo", "*"};
  for (int i = 0; i < security.methods_size(); ++i) {
    const std::string path = absl::StrCat("security.methods[", i, "]");
    const v1::MethodAccess& entry = security.methods(i);
    if (known.count(entry.method()) == 0) {
      violations.Add(path + ".method",
                     absl::StrCat("\"", Clip(entry.method(), 80),
                                  "\", expected a method's name or \"*\""));
    }
    if (entry.identities().empty()) {
      violations.Add(path + ".identities", "required: nobody could call it");
    }
  }
  if (security.methods().empty()) return;
  for (int i = 0; i < config.listeners_size(); ++i) {
    if (!config.listeners(i).tls().client_ca_file().empty()) continue;
    violations.Add(absl::StrCat("listeners[", i, "].tls.client_ca_file"),
                   "required with security.methods: who shows no certificate "
                   "has no identity");
  }
}

void CompleteTransport(v1::ServerConfig& config, Violations& violations) {
  v1::Transport& transport = *config.mutable_transport();
  const double age = transport.connection_age_seconds();
  if (age == 0) transport.set_connection_age_seconds(20);
  // Clients that must connect anew more often do little else.
  if (age != 0 && !(age >= 1 && age <= 1e6)) {
    violations.Add("transport.connection_age_seconds",
                   absl::StrCat(age, ", expected 1 to 1e6"));
  }
}

void CompleteDrainAndLog(v1::ServerConfig& config, Violations& violations) {
  v1::Drain& drain = *config.mutable_drain();
  if (!drain.has_delay_seconds()) drain.set_delay_seconds(5);
  if (!drain.has_grace_seconds()) drain.set_grace_seconds(30);
  if (!(drain.delay_seconds() >= 0 && drain.delay_seconds() <= 86400)) {
    violations.Add("drain.delay_seconds", "expected 0 to 86400");
  }
  if (!(drain.grace_seconds() >= 0 && drain.grace_seconds() <= 86400)) {
    violations.Add("drain.grace_seconds", "expected 0 to 86400");
  }
  v1::Log& log = *config.mutable_log();
  if (log.format() == v1::Log::FORMAT_UNSPECIFIED) {
    log.set_format(v1::Log::FORMAT_JSON);
  }
  if (log.level() == v1::Log::LEVEL_UNSPECIFIED) {
    log.set_level(v1::Log::LEVEL_INFO);
  }
  if (!log.has_access_lines_per_second()) {
    log.set_access_lines_per_second(100);
  }
  if (!(log.access_lines_per_second() >= 0)) {
    violations.Add("log.access_lines_per_second", "expected >= 0");
  }
}

// Nothing that would need quoting in a label, a log line or a health name.
bool IsName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes &&
         name.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRST"
             "UVWXYZ0123456789_.-") == absl::string_view::npos;
}

void CheckEncodings(const v1::ServerConfig& config, Violations& violations) {
  std::set<std::string> names = {kNopeName};
  for (int i = 0; i < config.encodings_size(); ++i) {
    const v1::Encoding& encoding = config.encodings(i);
    const std::string prefix = absl::StrCat("encodings[", i, "].");
    if (!IsName(encoding.name())) {
      violations.Add(prefix + "name",
                     "required: 1 to 64 letters, digits, '_', '.' or '-'");
    } else if (!names.insert(encoding.name()).second) {
      violations.Add(prefix + "name",
                     absl::StrCat("\"", encoding.name(),
                                  encoding.name() == kNopeName
                                      ? "\" always means no encoding"
                                      : "\" is taken by another encoding"));
    }
    // Where an entry of a list could not be read, a 0 stands in its place, of
    // which only the count may be judged.
    const bool complete = !violations.HasEntry(prefix);
    Violations own;
    const NamedEncoding read = ReadEncoding(
        encoding, prefix, own,
        complete ? EncodingChecks::kAll : EncodingChecks::kAllButEigenvalues);
    if (own.empty() && complete) {
      own.AddStatus(Resolve(read, NominalSizes(read.spec)).status(), prefix,
                    "blocks");
    }
    for (const auto& violation : own.list()) {
      if (!violations.Has(violation.field)) violations.Append(violation);
    }
  }
}

// A required number that nobody wrote is 0 to those who check it.
std::string DescriptionOf(const Violations::Violation& violation,
                          const SourceMap& sources) {
  absl::string_view text = violation.description;
  if (sources.Has(violation.field) || !absl::ConsumePrefix(&text, "0, ")) {
    return violation.description;
  }
  return absl::StrCat("left out, ", text);
}

std::string FaultLine(const std::string& file, int line,
                      const Violations::Violation& violation,
                      const SourceMap& sources) {
  return absl::StrCat(file, ":", line > 0 ? absl::StrCat(line, ":") : "", " ",
                      violation.field, violation.field.empty() ? "" : ": ",
                      DescriptionOf(violation, sources));
}

// One line per fault, in the order of the file.
absl::Status ToStatus(const std::string& file, const SourceMap& sources,
                      const Violations& violations) {
  if (violations.empty()) return absl::OkStatus();
  std::vector<std::pair<int, const Violations::Violation*>> faults;
  for (const auto& violation : violations.list()) {
    faults.emplace_back(sources.Line(violation.field), &violation);
  }
  std::stable_sort(
      faults.begin(), faults.end(),
      [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string text;
  for (size_t i = 0; i < faults.size() && i < kMaxFaults; ++i) {
    const auto& [line, violation] = faults[i];
    absl::StrAppend(&text, i > 0 ? "\n" : "",
                    FaultLine(file, line, *violation, sources));
  }
  if (faults.size() > kMaxFaults) {
    absl::StrAppend(&text, "\n... and ", faults.size() - kMaxFaults, " more");
  }
  return absl::InvalidArgumentError(text);
}

}  // namespace

absl::StatusOr<Config> ParseConfig(const std::string& text,
                                   const std::string& file,
                                   const Machine& machine) {
  Config config;
  v1::ServerConfig& out = config.effective;
  SourceMap sources;
  Violations violations;
  ParseYaml(text, out, sources, violations);
  CompleteListeners(out, violations);
  if (out.workers() < 0 || out.workers() > 4096) {
    violations.Add("workers", absl::StrCat(out.workers(),
                                           ", expected 1 to 4096, or 0 for "
                                           "what the machine allows"));
  } else if (out.workers() == 0) {
    out.set_workers(machine.DefaultWorkers());
  }
  CompleteLimits(machine, *out.mutable_limits(), violations);
  CompleteTransport(out, violations);
  CompleteDrainAndLog(out, violations);
  CompleteTenants(*out.mutable_tenants(), violations);
  CheckSecurity(out, violations);
  if (out.verification().shadow_one_in() < 0) {
    violations.Add("verification.shadow_one_in", "expected >= 0");
  }
  v1::InlineEncodings& inlined = *out.mutable_inline_encodings();
  if (!inlined.has_cache_entries()) inlined.set_cache_entries(64);
  if (inlined.cache_entries() < 1 || inlined.cache_entries() > (1 << 20)) {
    violations.Add("inline_encodings.cache_entries", "expected 1 to 1048576");
  }
  if (!inlined.has_dense_dim()) inlined.set_dense_dim(128);
  if (inlined.dense_dim() < 0 || inlined.dense_dim() > 128) {
    violations.Add("inline_encodings.dense_dim", "expected 0 to 128");
  }
  CheckEncodings(out, violations);
  if (absl::Status status = ToStatus(file, sources, violations); !status.ok()) {
    return status;
  }
  config.hash = Sha256(DeterministicBytes(out));
  return config;
}

absl::StatusOr<Config> LoadConfig(const std::string& file,
                                  const Machine& machine) {
  std::ifstream stream(file);
  std::stringstream text;
  text << stream.rdbuf();
  if (!stream || std::filesystem::is_directory(file)) {
    return absl::NotFoundError(absl::StrCat(file, ": cannot be read"));
  }
  return ParseConfig(text.str(), file, machine);
}

std::string ConfigText(const Config& config) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  std::string text;
  (void)google::protobuf::util::MessageToJsonString(config.effective, &text,
                                                    options);
  return text;
}

}  // namespace attnd::server
