#include "server/admission.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/status.h"

namespace attnd::server {
namespace {

using std::chrono::milliseconds;

// When to come back: when the excess will have been worked off, but neither at
// once nor so late that a recovered server stands idle.
milliseconds RetryAfter(double excess_seconds) {
  return milliseconds(
      static_cast<int64_t>(std::clamp(1e3 * excess_seconds, 20.0, 5000.0)));
}

absl::Status QueueFull(absl::string_view what, milliseconds retry) {
  return Refuse(Reason::kQueueFull,
                absl::StrCat("the queue is full: ", what, "; retry after ",
                             retry.count(), " ms"),
                retry);
}

}  // namespace

absl::StatusOr<Admission::Ticket> Admission::Reserve(int64_t bytes) {
  if (bytes > limits_.bytes) {
    return RefuseSize("payload, reply and work space of the request",
                      static_cast<double>(bytes), "limits.queue_bytes",
                      static_cast<double>(limits_.bytes), "bytes");
  }
  std::lock_guard lock(mutex_);
  if (closed_) {
    return Refuse(Reason::kDraining, "the server is shutting down",
                  milliseconds(100));
  }
  const milliseconds retry =
      RetryAfter(load_.waiting_seconds / limits_.workers / 2);
  if (load_.bytes + bytes > limits_.bytes) {
    return QueueFull(
        absl::StrCat(load_.bytes, " of ", limits_.bytes,
                     " bytes are taken and the request needs ", bytes),
        retry);
  }
  if (reserved_ >= limits_.waiting_requests) {
    return QueueFull(absl::StrCat(reserved_, " requests wait"), retry);
  }
  Ticket ticket;
  ticket.admission_ = this;
  ticket.bytes_ = bytes;
  load_.bytes += bytes;
  ++reserved_;
  return ticket;
}

absl::Status Admission::CheckQueue(double seconds, Instant now,
                                   Instant deadline, double own_time) const {
  const double limit = limits_.queue_worker_seconds * limits_.workers;
  if (load_.waiting_requests > 0 && load_.waiting_seconds + seconds > limit) {
    return QueueFull(absl::StrFormat("%.3f worker seconds wait, limit %.3f",
                                     load_.waiting_seconds, limit),
                     RetryAfter((load_.waiting_seconds + seconds - limit) /
                                limits_.workers));
  }
  // Earliest deadline first is feasible iff for every deadline the work due by
  // then fits before it. Work that is late already proves nothing about us.
  double due = 0;
  bool passed_own = false;
  const auto check_own = [&] {
    passed_own = true;
    const double left = Seconds(deadline - now);
    const double wait = due / limits_.workers;
    due += seconds;
    if (wait + own_time <= left) return absl::OkStatus();
    return Refuse(
        Reason::kHopeless,
        absl::StrFormat("cannot be done in time: about %.3f s of waiting and "
                        "%.3f s of work, %.3f s left; nothing was computed",
                        wait, own_time, left),
        std::nullopt,
        {{"predicted_wait_seconds", absl::StrFormat("%.6f", wait)},
         {"predicted_seconds", absl::StrFormat("%.6f", own_time)}});
  };
  for (const auto& [key, entry] : entries_) {
    if (!passed_own && key.first > deadline) {
      if (absl::Status status = check_own(); !status.ok()) return status;
    }
    due += entry.remaining_seconds;
    const double left = Seconds(key.first - now);
    const double before = (due - seconds) / limits_.workers;
    if (passed_own && before <= left && due / limits_.workers > left) {
      return QueueFull("admitted requests would miss their deadlines",
                       RetryAfter(due / limits_.workers - left));
    }
  }
  return passed_own ? absl::OkStatus() : check_own();
}

absl::Status Admission::Admit(Ticket& ticket, double seconds, int64_t units,
                              Instant now, Instant deadline) {
  if (seconds > limits_.request_worker_seconds) {
    return RefuseSize("predicted work of the request", seconds,
                      "limits.request_worker_seconds",
                      limits_.request_worker_seconds, "worker seconds");
  }
  const double own_time = seconds / static_cast<double>(std::clamp<int64_t>(
                                        units, 1, limits_.workers));
  std::lock_guard lock(mutex_);
  if (absl::Status status = CheckQueue(seconds, now, deadline, own_time);
      !status.ok()) {
    return status;
  }
  ticket.admitted_ = true;
  ticket.key_ = {deadline, next_number_++};
  entries_[ticket.key_] = {.remaining_seconds = seconds};
  load_.waiting_seconds += seconds;
  load_.remaining_seconds += seconds;
  ++load_.waiting_requests;
  return absl::OkStatus();
}

double Admission::PredictWait(Instant deadline) const {
  std::lock_guard lock(mutex_);
  double due = 0;
  for (const auto& [key, entry] : entries_) {
    if (key.first > deadline) break;
    due += entry.remaining_seconds;
  }
  return due / limits_.workers;
}

void Admission::Close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
}

AdmissionLoad Admission::load() const {
  std::lock_guard lock(mutex_);
  return load_;
}

void Admission::Started(Ticket& ticket) {
  std::lock_guard lock(mutex_);
  if (ticket.started_) return;
  ticket.started_ = true;
  --reserved_;
  if (!ticket.admitted_) return;
  Entry& entry = entries_.at(ticket.key_);
  entry.started = true;
  --load_.waiting_requests;
  load_.waiting_seconds -= entry.remaining_seconds;
  // Sums of many differences: an empty queue is exactly empty again.
  if (load_.waiting_requests == 0) load_.waiting_seconds = 0;
}

void Admission::Spend(Ticket& ticket, double seconds) {
  std::lock_guard lock(mutex_);
  if (!ticket.admitted_) return;
  Entry& entry = entries_.at(ticket.key_);
  const double spent = std::min(seconds, entry.remaining_seconds);
  entry.remaining_seconds -= spent;
  load_.remaining_seconds -= spent;
}

void Admission::Release(Ticket& ticket) {
  std::lock_guard lock(mutex_);
  load_.bytes -= ticket.bytes_;
  if (!ticket.started_) --reserved_;
  if (!ticket.admitted_) return;
  const auto it = entries_.find(ticket.key_);
  load_.remaining_seconds -= it->second.remaining_seconds;
  if (!it->second.started) {
    --load_.waiting_requests;
    load_.waiting_seconds -= it->second.remaining_seconds;
    if (load_.waiting_requests == 0) load_.waiting_seconds = 0;
  }
  entries_.erase(it);
  if (entries_.empty()) load_.remaining_seconds = 0;
}

Admission::Ticket& Admission::Ticket::operator=(Ticket&& other) noexcept {
  if (this == &other) return *this;
  Release();
  admission_ = std::exchange(other.admission_, nullptr);
  bytes_ = other.bytes_;
  admitted_ = other.admitted_;
  started_ = other.started_;
  key_ = other.key_;
  return *this;
}

void Admission::Ticket::Started() {
  if (admission_ != nullptr) admission_->Started(*this);
}

void Admission::Ticket::Spend(double seconds) {
  if (admission_ != nullptr) admission_->Spend(*this, seconds);
}

void Admission::Ticket::Release() {
  if (admission_ == nullptr) return;
  std::exchange(admission_, nullptr)->Release(*this);
}

}  // namespace attnd::server
