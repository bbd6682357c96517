#include "server/load_report.h"

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/wire_format_lite.h"

namespace attnd::server {
namespace {

using google::protobuf::internal::WireFormatLite;

constexpr double kPeriodSeconds = 0.5;

// Numbers of fields of xds.data.orca.v3.OrcaLoadReport.
constexpr int kRequestCost = 4;
constexpr int kCallsPerSecond = 6;
constexpr int kErrorsPerSecond = 7;
constexpr int kApplicationUtilization = 9;

}  // namespace

// Called with the lock.
void LoadReport::Refresh(Instant now) {
  const double elapsed = Seconds(now - since_);
  if (since_ != Instant{} && elapsed < kPeriodSeconds) return;
  const ExecutorLoad load = executor_.load();
  if (since_ != Instant{}) {
    utilization_ = (load.busy_seconds - busy_seconds_) / elapsed / workers_;
    // Busy workers alone look the same at 1 and at 10 times the capacity.
    utilization_ += static_cast<double>(load.waiting) / (100.0 * workers_);
    calls_per_second_ = static_cast<double>(calls_) / elapsed;
    errors_per_second_ = static_cast<double>(errors_) / elapsed;
  }
  since_ = now;
  busy_seconds_ = load.busy_seconds;
  calls_ = errors_ = 0;
  period_report_.clear();
  google::protobuf::io::StringOutputStream stream(&period_report_);
  google::protobuf::io::CodedOutputStream out(&stream);
  WireFormatLite::WriteDouble(kCallsPerSecond, calls_per_second_, &out);
  WireFormatLite::WriteDouble(kErrorsPerSecond, errors_per_second_, &out);
  WireFormatLite::WriteDouble(kApplicationUtilization, utilization_, &out);
}

std::string LoadReport::CallEnded(bool ok, double worker_seconds, Instant now) {
  std::string report;
  {
    std::lock_guard lock(mutex_);
    ++calls_;
    errors_ += !ok;
    Refresh(now);
    report.reserve(period_report_.size() + 32);
    report += period_report_;
  }
  google::protobuf::io::StringOutputStream stream(&report);
  google::protobuf::io::CodedOutputStream out(&stream);
  // An entry of a map is a message {key = 1, value = 2}.
  constexpr char kCostName[] = "worker_seconds";
  constexpr int kEntryBytes = 2 + sizeof(kCostName) - 1 + 1 + 8;
  WireFormatLite::WriteTag(kRequestCost,
                           WireFormatLite::WIRETYPE_LENGTH_DELIMITED, &out);
  out.WriteVarint32(kEntryBytes);
  WireFormatLite::WriteString(1, kCostName, &out);
  WireFormatLite::WriteDouble(2, worker_seconds, &out);
  out.Trim();
  return report;
}

}  // namespace attnd::server
