// attnctl encodings: the time encodings that a server offers.
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <iostream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/attnctl/commands.h"
#include "client/attnctl/encodings_text.h"
#include "client/attnctl/exit_code.h"
#include "client/attnctl/failure.h"
#include "client/attnctl/target_options.h"
#include "client/attnctl/wait_notice.h"
#include "client/files.h"
#include "client/named_files.h"
#include "client/number_range.h"
#include "client/show/encoding_plot.h"
#include "client/show/residuals.h"

namespace attnd::client {
namespace {

constexpr char kManual[] = R"(
Lists the encodings of the server's configuration; shows one with its resolved
numbers (frequencies, rates and slopes after presets and defaults were filled
in, for the head dimension and head counts given) and draws it; or checks that
it keeps what its class promises.

show  Prints class, properties, effective horizon per head, every block, and the
      parameters of biases, absolute parts, presets and query temperatures.
      --svg draws what it does over the lag: the kernel A(D) and the bias(D),
      that of the future apart where it differs, the orbits of rotation planes,
      and absolute parts as a map of position and dimension. What is no function
      of these is named below.
check Computes from the resolved numbers the residuals of A(0) = I, of the
      group law A(a) A(b) = A(a+b) and of the norm, and asks the server for two
      answers: one that a shift of all times must not change, and one that is
      computed here again in double precision.

The horizon is the lag, in units, at which a head's kernel or its weights have
fallen to 1/e; where decays follow a clock of the request, in its units.

Exit codes
  0  done
  1  the server does not know that encoding; check: something is off
  2  the server was not reached
  4  wrong arguments
  5  a result could not be written

Examples
  attnctl encodings
  attnctl encodings show rope --dim 128
  attnctl encodings show alibi --heads 12 --json
  attnctl encodings show jordan --svg jordan.svg --head 0,5 --span 100
  attnctl encodings check jordan)";

// What `check` sends.
constexpr int kCheckedKeys = 16;

struct EncodingsArguments {
  TargetOptions target;
  std::string action = "list";
  std::string name;
  int head_dim = 0;
  int query_heads = 0;
  int kv_heads = 0;
  int length = 0;
  bool json = false;
  std::string svg;
  EncodingPlotOptions plot;
};

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

ExitCode Show(const EncodingsArguments& arguments,
              const v1::ResolvedEncoding& encoding) {
  if (!arguments.svg.empty()) {
    const auto picture = PlotEncoding(encoding, arguments.plot);
    if (!picture.ok()) return FailedInput(picture.status());
    absl::Status written = WriteFile(arguments.svg, *picture);
    if (!written.ok()) return FailedOutput(written);
    if (arguments.svg == "-") return kDone;
  }
  if (arguments.json) return PrintJson(encoding);
  std::cout << ShowText(encoding);
  return kDone;
}

ExitCode Check(const Client& client, const v1::ResolvedEncoding& encoding) {
  auto residuals = KernelResiduals(encoding);
  if (!residuals.ok()) return FailedInput(residuals.status());
  const auto answers = ServerResiduals(encoding, client, {});
  if (!answers.ok()) return FailedCall(answers.status());
  residuals->insert(residuals->end(), answers->begin(), answers->end());
  std::cout << ResidualsText(*residuals);
  const bool ok = std::all_of(residuals->begin(), residuals->end(),
                              [](const Residual& r) { return r.ok(); });
  return ok ? kDone : kRefused;
}

v1::ListEncodingsRequest RequestOf(const EncodingsArguments& arguments) {
  v1::ListEncodingsRequest request;
  if (!arguments.name.empty()) request.add_names(arguments.name);
  request.set_head_dim(arguments.head_dim);
  request.set_query_heads(arguments.query_heads);
  request.set_kv_heads(arguments.kv_heads);
  request.set_length(arguments.action == "check" ? kCheckedKeys
                                                 : arguments.length);
  return request;
}

ExitCode Run(const EncodingsArguments& arguments) {
  const bool list = arguments.action == "list";
  if (list != arguments.name.empty()) {
    return FailedInput(absl::InvalidArgumentError(
        "expected: encodings, encodings list, encodings show NAME, or "
        "encodings check NAME"));
  }
  if (arguments.action != "show" && !arguments.svg.empty()) {
    return FailedInput(absl::InvalidArgumentError("--svg: only with show"));
  }
  if (arguments.svg.empty() &&
      (!arguments.plot.heads.empty() || arguments.plot.span > 0)) {
    return FailedInput(
        absl::InvalidArgumentError("--head, --span: only with --svg"));
  }
  if (arguments.action == "check" && (arguments.json || arguments.length > 0)) {
    return FailedInput(
        absl::InvalidArgumentError("--json, --length: not with check"));
  }
  const absl::Status files =
      CheckFiles(TargetFiles(arguments.target), {{"--svg", arguments.svg}});
  if (!files.ok()) return FailedInput(files);
  absl::StatusOr<Client> client = MakeClient(arguments.target);
  if (!client.ok()) return FailedInput(client.status());
  const WaitNotice notice(arguments.target);
  const absl::StatusOr<v1::ListEncodingsResponse> reply =
      client->ListEncodings(RequestOf(arguments));
  if (!reply.ok()) return FailedCall(reply.status());
  if (list) {
    if (arguments.json) return PrintJson(*reply);
    std::cout << ListText(*reply);
    return kDone;
  }
  if (reply->encodings_size() != 1) {
    return FailedCall(
        absl::NotFoundError(absl::StrCat("encoding '", arguments.name, "'")));
  }
  return arguments.action == "show" ? Show(arguments, reply->encodings(0))
                                    : Check(*client, reply->encodings(0));
}

}  // namespace

void AddEncodingsCommand(CLI::App& app, int* exit_code) {
  CLI::App* command =
      app.add_subcommand("encodings", "Which time encodings are there?");
  auto arguments = std::make_shared<EncodingsArguments>();
  command->footer(kManual);
  command->add_option("action", arguments->action, "list, show or check")
      ->check(CLI::IsMember({"list", "show", "check"}).description(""))
      ->capture_default_str();
  command->add_option("name", arguments->name, "Encoding to show or check");
  constexpr int kMaxSize = std::numeric_limits<int32_t>::max();
  const CLI::Validator size = WholeNumber(1, kMaxSize);
  command
      ->add_option("--dim", arguments->head_dim,
                   "Head dimension to resolve for; default: the server's")
      ->check(size);
  command->add_option("--heads", arguments->query_heads, "Query heads")
      ->check(size);
  command->add_option("--kv-heads", arguments->kv_heads, "Key/value heads")
      ->check(size);
  command
      ->add_option("--length", arguments->length,
                   "Keys of an item, where numbers depend on it")
      ->check(size);
  command->add_flag("--json", arguments->json, "Print JSON");
  command->add_option("--svg", arguments->svg,
                      "Write a picture to this file; - is standard output");
  command
      ->add_option("--head", arguments->plot.heads,
                   "With --svg: query heads to draw, from 0; default: up to "
                   "four of them")
      ->check(WholeNumber(0, kMaxSize))
      ->delimiter(',');
  command
      ->add_option("--span", arguments->plot.span,
                   "With --svg: units of lag to draw; default: what the "
                   "encoding says")
      ->check(RealNumber(0, kNoEnd, Ends::kNeither));
  AddTargetOptions(command, &arguments->target);
  command->callback([arguments, exit_code] { *exit_code = Run(*arguments); });
}

}  // namespace attnd::client
