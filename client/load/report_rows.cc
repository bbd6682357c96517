// The forms that other programs read line by line: CSV and JUnit.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/load/load_report.h"
#include "client/plot/svg.h"

namespace attnd::client {
namespace {

struct TestCase {
  std::string name;
  // Empty = passed.
  std::string failure;
};

std::vector<TestCase> TestCases(const LoadReport& report) {
  std::vector<TestCase> cases;
  std::string invalid;
  for (const std::string& reason : report.invalid) {
    absl::StrAppend(&invalid, invalid.empty() ? "" : "; ", reason);
  }
  cases.push_back({"valid", invalid});
  for (const SloCheck& check : report.slo) {
    cases.push_back({check.clause, check.met ? "" : check.found});
  }
  if (report.searched) {
    cases.push_back({"a rate is sustained",
                     report.found_rate ? "" : "none, twice in a row"});
  }
  if (const auto& verification = report.verification) {
    cases.push_back(
        {"answers are right",
         verification->Passed()
             ? ""
             : absl::StrFormat("%d of %d wrong, %d not verifiable",
                               verification->wrong, verification->checked,
                               verification->unverifiable)});
  }
  return cases;
}

}  // namespace

std::string ReportCsv(const LoadReport& report) {
  const Timeline& timeline = report.result.timeline;
  const double row_seconds = 1e-9 * static_cast<double>(timeline.row_ns());
  std::string text =
      "seconds,row_seconds,planned,started,ok,failed,dropped,"
      "latency_p50_seconds,latency_p90_seconds,latency_p99_seconds,"
      "latency_max_seconds\n";
  for (int i = 0; i < timeline.size(); ++i) {
    const TimelineRow& row = timeline.row(i);
    absl::StrAppendFormat(&text, "%.3f,%.3f,%d,%d,%d,%d,%d", i * row_seconds,
                          row_seconds, row.planned, row.started, row.ok,
                          row.failed, row.dropped);
    for (double percent : {50.0, 90.0, 99.0, 100.0}) {
      const Histogram& latency = row.latency_ns;
      // No answer has no latency, which is not 0.
      if (latency.count() == 0) {
        text += ",";
      } else {
        absl::StrAppendFormat(
            &text, ",%.9g",
            1e-9 * static_cast<double>(latency.ValueAtPercentile(percent)));
      }
    }
    text += "\n";
  }
  return text;
}

std::string ReportJunit(const LoadReport& report) {
  const std::vector<TestCase> cases = TestCases(report);
  int failures = 0;
  std::string body;
  for (const TestCase& test : cases) {
    absl::StrAppend(&body, "    <testcase classname=\"attnctl.load\" name=\"",
                    XmlText(test.name), "\"");
    if (test.failure.empty()) {
      body += "/>\n";
    } else {
      ++failures;
      absl::StrAppend(&body, ">\n      <failure message=\"",
                      XmlText(test.failure), "\"/>\n    </testcase>\n");
    }
  }
  return absl::StrFormat(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuites>\n"
      "  <testsuite name=\"%s\" tests=\"%d\" failures=\"%d\" time=\"%.3f\">\n"
      "%s  </testsuite>\n</testsuites>\n",
      XmlText(absl::StrCat("attnctl load, ", report.setting.mode)),
      cases.size(), failures, report.result.run_seconds, body);
}

}  // namespace attnd::client
