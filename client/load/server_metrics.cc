#include "client/load/server_metrics.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/http_get.h"

namespace attnd::client {
namespace {

constexpr std::chrono::seconds kEvery(1);
constexpr absl::Duration kTimeout = absl::Seconds(2);

double Now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// `stage="queue"` of `code="OK",stage="queue"`; empty without one. Values that
// hold a comma are not kept.
absl::string_view KeptLabel(absl::string_view labels) {
  for (absl::string_view label : absl::StrSplit(labels, ',')) {
    if ((absl::StartsWith(label, "stage=\"") ||
         absl::StartsWith(label, "tenant_class=\"")) &&
        absl::EndsWith(label, "\"")) {
      return label;
    }
  }
  return "";
}

// Where the labels end: the brace outside quotes.
size_t EndOfLabels(absl::string_view line, size_t begin) {
  bool quoted = false;
  for (size_t i = begin; i < line.size(); ++i) {
    if (quoted && line[i] == '\\') {
      ++i;
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (line[i] == '}' && !quoted) {
      return i;
    }
  }
  return absl::string_view::npos;
}

}  // namespace

MetricValues ParseMetrics(absl::string_view text) {
  MetricValues values;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (line.empty() || line[0] == '#') continue;
    const size_t name_end = line.find_first_of("{ ");
    if (name_end == absl::string_view::npos) continue;
    const std::string name(line.substr(0, name_end));
    absl::string_view labels;
    size_t value_at = name_end;
    if (line[name_end] == '{') {
      const size_t end = EndOfLabels(line, name_end + 1);
      if (end == absl::string_view::npos) continue;
      labels = line.substr(name_end + 1, end - name_end - 1);
      value_at = end + 1;
    }
    const std::vector<absl::string_view> numbers =
        absl::StrSplit(line.substr(value_at), ' ', absl::SkipEmpty());
    double value;
    if (numbers.empty() || !absl::SimpleAtod(numbers[0], &value) ||
        !std::isfinite(value)) {
      continue;
    }
    values[name] += value;
    if (const absl::string_view kept = KeptLabel(labels); !kept.empty()) {
      values[absl::StrCat(name, "{", kept, "}")] += value;
    }
  }
  return values;
}

bool ServerMetrics::Has(const std::string& name) const {
  return !samples.empty() && samples.back().values.count(name) > 0;
}

double ServerMetrics::Difference(const std::string& name) const {
  if (!Has(name)) return 0;
  const auto before = samples.front().values.find(name);
  return samples.back().values.at(name) -
         (before == samples.front().values.end() ? 0 : before->second);
}

double ServerMetrics::Largest(const std::string& name) const {
  double largest = 0;
  for (const MetricSample& sample : samples) {
    const auto found = sample.values.find(name);
    if (found != sample.values.end()) {
      largest = std::max(largest, found->second);
    }
  }
  return largest;
}

std::map<std::string, double> ServerMetrics::DifferenceBy(
    const std::string& name, const std::string& label) const {
  std::map<std::string, double> differences;
  if (samples.empty()) return differences;
  const std::string begin = absl::StrCat(name, "{", label, "=\"");
  for (const auto& [key, value] : samples.back().values) {
    absl::string_view rest = key;
    if (absl::ConsumePrefix(&rest, begin) &&
        absl::ConsumeSuffix(&rest, "\"}")) {
      differences[std::string(rest)] = Difference(key);
    }
  }
  return differences;
}

std::map<std::string, double> OfferedByTenant(const ServerMetrics& server) {
  std::map<std::string, double> offered =
      server.DifferenceBy("attnd_offered_worker_seconds_total", "tenant_class");
  if (offered.size() < 2) return {};
  for (auto it = offered.begin(); it != offered.end();) {
    it = it->second > 0 ? std::next(it) : offered.erase(it);
  }
  return offered;
}

void ThinSamples(std::vector<MetricSample>* samples) {
  if (samples->size() < kMaxSamples) return;
  size_t kept = 0;
  for (size_t i = 0; i < samples->size(); ++i) {
    const bool end = i == 0 || i + 1 == samples->size();
    if (end || i % 2 == 0) (*samples)[kept++] = std::move((*samples)[i]);
  }
  samples->resize(kept);
}

absl::StatusOr<std::unique_ptr<MetricsScraper>> MetricsScraper::Start(
    const std::string& url) {
  std::unique_ptr<MetricsScraper> scraper(new MetricsScraper(url));
  if (absl::Status status = scraper->Scrape(); !status.ok()) return status;
  scraper->thread_ = std::thread([self = scraper.get()] { self->Run(); });
  return scraper;
}

MetricsScraper::MetricsScraper(const std::string& url) : begin_seconds_(Now()) {
  metrics_.url = url;
}

MetricsScraper::~MetricsScraper() { Stop(); }

absl::Status MetricsScraper::Scrape() {
  const double seconds = Now() - begin_seconds_;
  const absl::StatusOr<std::string> text = HttpGet(metrics_.url, kTimeout);
  if (!text.ok()) {
    ++metrics_.failed_scrapes;
    return text.status();
  }
  metrics_.samples.push_back({seconds, ParseMetrics(*text)});
  ThinSamples(&metrics_.samples);
  return absl::OkStatus();
}

void MetricsScraper::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopped_.wait_for(lock, kEvery, [this] { return stop_; })) {
    lock.unlock();
    Scrape().IgnoreError();  // counted
    lock.lock();
  }
}

ServerMetrics MetricsScraper::Stop() {
  if (!thread_.joinable()) return std::move(metrics_);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  thread_.join();
  Scrape().IgnoreError();  // counted
  return std::move(metrics_);
}

}  // namespace attnd::client
