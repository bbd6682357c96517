// attnctl encodings: the time encodings that a server offers.
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/attnctl/commands.h"
#include "client/attnctl/exit_code.h"
#include "client/attnctl/failure.h"
#include "client/attnctl/target_options.h"

namespace attnd::client {
namespace {

constexpr char kManual[] = R"(
Lists the encodings of the server's configuration, or shows one with its
resolved numbers: frequencies, rates and slopes after presets and defaults were
filled in, for the head dimension and head counts given.

Exit codes
  0  done
  1  the server does not know that encoding
  2  the server was not reached
  4  wrong arguments

Examples
  attnctl encodings
  attnctl encodings show rope --dim 128
  attnctl encodings show alibi --heads 12 --json)";

struct EncodingsArguments {
  TargetOptions target;
  std::string action = "list";
  std::string name;
  int head_dim = 0;
  int query_heads = 0;
  int kv_heads = 0;
  bool json = false;
};

std::string Properties(const v1::ResolvedEncoding& encoding) {
  std::vector<std::string> properties;
  if (encoding.relative()) properties.push_back("relative");
  properties.push_back(encoding.causal_only() ? "causal only" : "two-sided");
  if (!encoding.bounded()) properties.push_back("unbounded");
  return absl::StrJoin(properties, ", ");
}

void PrintList(const v1::ListEncodingsResponse& list) {
  size_t width = 4;
  for (const v1::ResolvedEncoding& encoding : list.encodings()) {
    width = std::max(width, encoding.name().size());
  }
  std::cout << absl::StrFormat("%-*s  %-10s  %s\n", width, "NAME", "TIME UNIT",
                               "WHAT");
  for (const v1::ResolvedEncoding& encoding : list.encodings()) {
    const std::string& unit = encoding.definition().time_unit();
    std::cout << absl::StrFormat("%-*s  %-10s  %s\n", width, encoding.name(),
                                 unit.empty() ? "-" : unit, encoding.summary());
  }
}

std::string BlockText(const v1::ResolvedBlock& block) {
  std::string text = absl::StrFormat("%-15s channels %s", block.kind(),
                                     absl::StrJoin(block.channels(), ","));
  if (block.frequency() != 0) {
    absl::StrAppendFormat(&text, "  frequency %.6g rad per unit",
                          block.frequency());
  }
  if (block.rate() != 0) {
    absl::StrAppendFormat(&text, "  rate %.6g per unit", block.rate());
  }
  return text;
}

void PrintOne(const v1::ResolvedEncoding& encoding) {
  std::cout << absl::StrFormat(
      "name        %s\nwhat        %s\ntime unit   %s\nproperties  %s\n"
      "hash        %s\nhead dim    %d\n",
      encoding.name(), encoding.summary(), encoding.definition().time_unit(),
      Properties(encoding), encoding.hash(), encoding.head_dim());
  if (!encoding.alibi_slopes().empty()) {
    std::cout << "slopes      " << absl::StrJoin(encoding.alibi_slopes(), " ")
              << " per unit\n";
  }
  for (int head = 0; head < encoding.generators_size(); ++head) {
    std::cout << (encoding.generators_size() == 1
                      ? std::string("blocks, all heads alike\n")
                      : absl::StrCat("blocks of kv head ", head, "\n"));
    for (const v1::ResolvedBlock& block : encoding.generators(head).blocks()) {
      std::cout << "  " << BlockText(block) << "\n";
    }
  }
}

ExitCode PrintJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status =
      google::protobuf::util::MessageToJsonString(message, &json, options);
  if (!status.ok()) {
    std::cerr << "attnctl: " << status.ToString() << "\n";
    return kOutput;
  }
  std::cout << json;
  return kDone;
}

ExitCode Run(const EncodingsArguments& arguments) {
  const bool show = arguments.action == "show";
  if (show == arguments.name.empty()) {
    return FailedInput(absl::InvalidArgumentError(
        "expected: encodings, encodings list, or encodings show NAME"));
  }
  absl::StatusOr<Client> client = MakeClient(arguments.target);
  if (!client.ok()) return FailedInput(client.status());
  v1::ListEncodingsRequest request;
  if (show) request.add_names(arguments.name);
  request.set_head_dim(arguments.head_dim);
  request.set_query_heads(arguments.query_heads);
  request.set_kv_heads(arguments.kv_heads);
  const absl::StatusOr<v1::ListEncodingsResponse> list =
      client->ListEncodings(request);
  if (!list.ok()) return FailedCall(list.status());
  if (show && list->encodings_size() != 1) {
    return FailedCall(
        absl::NotFoundError(absl::StrCat("encoding '", arguments.name, "'")));
  }
  if (arguments.json) {
    return show ? PrintJson(list->encodings(0)) : PrintJson(*list);
  }
  show ? PrintOne(list->encodings(0)) : PrintList(*list);
  return kDone;
}

}  // namespace

void AddEncodingsCommand(CLI::App& app, int* exit_code) {
  CLI::App* command =
      app.add_subcommand("encodings", "Which time encodings are there?");
  auto arguments = std::make_shared<EncodingsArguments>();
  command->footer(kManual);
  command->add_option("action", arguments->action, "list or show")
      ->check(CLI::IsMember({"list", "show"}).description(""))
      ->capture_default_str();
  command->add_option("name", arguments->name, "Encoding to show");
  command->add_option("--dim", arguments->head_dim,
                      "Head dimension to resolve for; default: the server's");
  command->add_option("--heads", arguments->query_heads, "Query heads");
  command->add_option("--kv-heads", arguments->kv_heads, "Key/value heads");
  command->add_flag("--json", arguments->json, "Print JSON");
  AddTargetOptions(command, &arguments->target);
  command->callback([arguments, exit_code] { *exit_code = Run(*arguments); });
}

}  // namespace attnd::client
