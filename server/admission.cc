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

// What a prediction may fill of the time that is left. Under overload each
// request is admitted at the last moment that allows it, and what nobody
// predicts (other threads, the way of the reply) would make half of them late.
constexpr double kFilledShare = 0.9;

absl::Status QueueFull(absl::string_view what, milliseconds retry) {
  return Refuse(Reason::kQueueFull,
                absl::StrCat("the queue is full: ", what, "; retry after ",
                             retry.count(), " ms"),
                retry);
}

}  // namespace

absl::StatusOr<Admission::Ticket> Admission::Reserve(int64_t bytes,
                                                     const Tenant& tenant) {
  std::lock_guard lock(mutex_);
  if (bytes > limits_.bytes) {
    return RefuseSize("payload, reply and work space of the request",
                      static_cast<double>(bytes), "limits.queue_bytes",
                      static_cast<double>(limits_.bytes), "bytes");
  }
  if (closed_) return RefuseDraining();
  Party& party = parties_[tenant.id];
  // Whether `more` is refused when `all` are taken, `own` by the tenant.
  const auto over = [&](int64_t all, int64_t own, int64_t more, int64_t limit) {
    if (all + more > limit) return true;
    const double half = 0.5 * static_cast<double>(limit);
    return tenant.share < 1 && own > 0 &&
           static_cast<double>(all + more) > half &&
           static_cast<double>(own + more) > tenant.share * half;
  };
  const milliseconds retry =
      RetryAfter(load_.waiting_seconds / limits_.workers / 2);
  if (over(load_.bytes, party.load.bytes, bytes, limits_.bytes)) {
    return QueueFull(
        absl::StrCat(load_.bytes, " of ", limits_.bytes,
                     " bytes are taken and the request needs ", bytes),
        retry);
  }
  if (over(reserved_, party.reserved, 1, limits_.waiting_requests)) {
    return QueueFull(absl::StrCat(reserved_, " requests wait"), retry);
  }
  Ticket ticket;
  ticket.admission_ = this;
  ticket.tenant_ = tenant;
  ticket.bytes_ = bytes;
  party.weight = tenant.weight;
  party.load.bytes += bytes;
  ++party.reserved;
  load_.bytes += bytes;
  ++reserved_;
  return ticket;
}

// A bucket that fills at the quota's rate up to one second of it. A request is
// let in when anything is left, so that one larger than the bucket is possible
// and is paid for afterwards.
absl::Status Admission::CheckQuota(Party& party, const Tenant& tenant,
                                   Instant now) {
  if (tenant.quota <= 0) return absl::OkStatus();
  const double elapsed =
      party.counted == Instant{} ? 1 : Seconds(now - party.counted);
  party.tokens = std::min(tenant.quota, party.tokens + tenant.quota * elapsed);
  party.counted = now;
  if (party.tokens > 0) return absl::OkStatus();
  return RefuseQuota(tenant.name, tenant.quota,
                     RetryAfter(-party.tokens / tenant.quota));
}

// Seconds until `due` worker seconds of the tenant are done, if its next
// requests come no sooner than those of others: each other tenant gets what its
// weight gives it in that time, but no more than it has.
double Admission::WaitFor(const Party& party, double due) const {
  double all = due;
  for (const auto& [id, other] : parties_) {
    if (&other == &party || other.entries.empty()) continue;
    all += std::min(other.load.remaining_seconds,
                    due * other.weight / party.weight);
  }
  return all / limits_.workers;
}

// Worker seconds by which `seconds` more are too many; at most 0 if they fit.
double Admission::Excess(const Party& party, const Tenant& tenant,
                         double seconds) const {
  const double limit = limits_.queue_worker_seconds * limits_.workers;
  const double own = party.load.waiting_seconds + seconds;
  if (tenant.share >= 1) return own - limit;
  const double all = load_.waiting_seconds - oversized_ + seconds;
  return std::min(all - limit / 2, own - tenant.share * limit / 2);
}

absl::Status Admission::CheckQueue(const Party& party, double excess) const {
  if (excess <= 0) return absl::OkStatus();
  if (party.load.waiting_requests == 0 && oversized_ == 0) {
    return absl::OkStatus();
  }
  return QueueFull(
      absl::StrFormat("%.3f worker seconds wait, limit %.3f, %.3f of them the "
                      "tenant's",
                      load_.waiting_seconds,
                      limits_.queue_worker_seconds * limits_.workers,
                      party.load.waiting_seconds),
      RetryAfter(excess / limits_.workers));
}

absl::Status Admission::CheckDeadlines(const Party& party, const Demand& demand,
                                       Instant now) const {
  // Earliest deadline first is feasible iff for every deadline the work due by
  // then fits before it. Work that is late already proves nothing about us.
  const double own_time =
      demand.seconds / static_cast<double>(std::clamp<int64_t>(
                           demand.units, 1, limits_.workers));
  double due = 0;
  bool passed_own = false;
  const auto check_own = [&] {
    passed_own = true;
    const double left = Seconds(demand.deadline - now);
    const double wait = WaitFor(party, due);
    due += demand.seconds;
    // Other tenants are served while it runs, too.
    const double end = std::max(wait + own_time, WaitFor(party, due));
    if (end <= kFilledShare * left) return absl::OkStatus();
    return Refuse(
        Reason::kHopeless,
        absl::StrFormat("cannot be done in time: about %.3f s of waiting and "
                        "%.3f s of work, %.3f s left; nothing was computed",
                        wait, own_time, left),
        std::nullopt,
        {{"predicted_wait_seconds", absl::StrFormat("%.6f", wait)},
         {"predicted_seconds", absl::StrFormat("%.6f", own_time)}});
  };
  const Key own = {-demand.priority, demand.deadline, next_number_};
  for (const auto& [key, entry] : party.entries) {
    if (!passed_own && key > own) {
      if (absl::Status status = check_own(); !status.ok()) return status;
    }
    due += entry.remaining_seconds;
    if (!passed_own) continue;
    const double left = kFilledShare * Seconds(std::get<Instant>(key) - now);
    const double with = WaitFor(party, due);
    if (WaitFor(party, due - demand.seconds) <= left && with > left) {
      return QueueFull("admitted requests would miss their deadlines",
                       RetryAfter(with - left));
    }
  }
  return passed_own ? absl::OkStatus() : check_own();
}

absl::Status Admission::Admit(Ticket& ticket, const Demand& demand,
                              Instant now) {
  std::lock_guard lock(mutex_);
  if (demand.seconds > limits_.request_worker_seconds) {
    return RefuseSize("predicted work of the request", demand.seconds,
                      "limits.request_worker_seconds",
                      limits_.request_worker_seconds, "worker seconds");
  }
  Party& party = parties_.at(ticket.tenant_.id);
  if (absl::Status status = CheckQuota(party, ticket.tenant_, now);
      !status.ok()) {
    return status;
  }
  const double excess = Excess(party, ticket.tenant_, demand.seconds);
  if (absl::Status status = CheckQueue(party, excess); !status.ok()) {
    return status;
  }
  if (absl::Status status = CheckDeadlines(party, demand, now); !status.ok()) {
    return status;
  }
  if (ticket.tenant_.quota > 0) party.tokens -= demand.seconds;
  ticket.admitted_ = true;
  ticket.key_ = {-demand.priority, demand.deadline, next_number_++};
  party.entries[ticket.key_] = {.remaining_seconds = demand.seconds,
                                .oversized = excess > 0};
  if (excess > 0) oversized_ = demand.seconds;
  for (AdmissionLoad* load : {&load_, &party.load}) {
    load->waiting_seconds += demand.seconds;
    load->remaining_seconds += demand.seconds;
    ++load->waiting_requests;
  }
  return absl::OkStatus();
}

double Admission::PredictWait(Instant deadline, const Tenant& tenant) const {
  std::lock_guard lock(mutex_);
  const auto found = parties_.find(tenant.id);
  Party nobody;
  nobody.weight = tenant.weight;
  const Party& party = found == parties_.end() ? nobody : found->second;
  double due = 0;
  for (const auto& [key, entry] : party.entries) {
    if (key > Key{0, deadline, next_number_}) break;
    due += entry.remaining_seconds;
  }
  return WaitFor(party, due);
}

void Admission::Close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
}

AdmissionLoad Admission::load() const {
  std::lock_guard lock(mutex_);
  return load_;
}

AdmissionLimits Admission::limits() const {
  std::lock_guard lock(mutex_);
  return limits_;
}

void Admission::SetLimits(const AdmissionLimits& limits) {
  std::lock_guard lock(mutex_);
  limits_ = limits;
}

void Admission::Started(Ticket& ticket) {
  std::lock_guard lock(mutex_);
  if (ticket.started_) return;
  Party& party = parties_.at(ticket.tenant_.id);
  ticket.started_ = true;
  --reserved_;
  --party.reserved;
  if (!ticket.admitted_) return;
  Entry& entry = party.entries.at(ticket.key_);
  entry.started = true;
  WaitsNoMore(party, entry);
}

void Admission::WaitsNoMore(Party& party, const Entry& entry) {
  if (entry.oversized) oversized_ = 0;
  for (AdmissionLoad* load : {&load_, &party.load}) {
    --load->waiting_requests;
    load->waiting_seconds -= entry.remaining_seconds;
    // Sums of many differences: an empty queue is exactly empty again.
    if (load->waiting_requests == 0) load->waiting_seconds = 0;
  }
}

void Admission::Spend(Ticket& ticket, double seconds) {
  std::lock_guard lock(mutex_);
  if (!ticket.admitted_) return;
  Party& party = parties_.at(ticket.tenant_.id);
  Entry& entry = party.entries.at(ticket.key_);
  const double spent = std::min(seconds, entry.remaining_seconds);
  entry.remaining_seconds -= spent;
  load_.remaining_seconds -= spent;
  party.load.remaining_seconds -= spent;
}

void Admission::Release(Ticket& ticket) {
  std::lock_guard lock(mutex_);
  ReleaseWork(ticket);
  load_.bytes -= ticket.bytes_;
  parties_.at(ticket.tenant_.id).load.bytes -= ticket.bytes_;
}

void Admission::Keep(Ticket& ticket, int64_t bytes) {
  std::lock_guard lock(mutex_);
  ReleaseWork(ticket);
  load_.bytes += bytes - ticket.bytes_;
  parties_.at(ticket.tenant_.id).load.bytes += bytes - ticket.bytes_;
  ticket.bytes_ = bytes;
  ticket.admitted_ = false;
  ticket.started_ = true;
}

// All but the bytes. Called with the lock.
void Admission::ReleaseWork(const Ticket& ticket) {
  Party& party = parties_.at(ticket.tenant_.id);
  if (!ticket.started_) {
    --reserved_;
    --party.reserved;
  }
  if (!ticket.admitted_) return;
  const auto it = party.entries.find(ticket.key_);
  for (AdmissionLoad* load : {&load_, &party.load}) {
    load->remaining_seconds -= it->second.remaining_seconds;
  }
  if (!it->second.started) WaitsNoMore(party, it->second);
  party.entries.erase(it);
  if (party.entries.empty()) {
    party.load.remaining_seconds = 0;
    const bool idle = std::all_of(
        parties_.begin(), parties_.end(),
        [](const auto& other) { return other.second.entries.empty(); });
    if (idle) load_.remaining_seconds = 0;
  }
}

Admission::Ticket& Admission::Ticket::operator=(Ticket&& other) noexcept {
  if (this == &other) return *this;
  Release();
  admission_ = std::exchange(other.admission_, nullptr);
  tenant_ = std::move(other.tenant_);
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

void Admission::Ticket::KeepBytes(int64_t bytes) {
  if (admission_ != nullptr) admission_->Keep(*this, bytes);
}

void Admission::Ticket::Release() {
  if (admission_ == nullptr) return;
  std::exchange(admission_, nullptr)->Release(*this);
}

}  // namespace attnd::server
