#include "client/load/conductor.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "client/retry.h"

namespace attnd::client {
namespace {

// Endpoints and kinds of work are seen one by one; their memory is taken before
// the first call.
CallFigures Named(const std::string& name) {
  CallFigures figures;
  figures.name = name;
  figures.latency_ns.Reserve();
  figures.service_ns.Reserve();
  return figures;
}

void RecordIn(const AttemptEnd& end, int64_t latency_ns, int64_t request_bytes,
              CallFigures* figures) {
  if (!end.status.ok()) {
    ++figures->failed;
    ErrorCount& errors = figures->errors[end.status.code()];
    if (errors.count++ == 0) {
      errors.example = std::string(end.status.message());
    }
    return;
  }
  ++figures->ok;
  figures->latency_ns.Record(latency_ns);
  figures->service_ns.Record(end.ended_ns - end.started_ns);
  figures->request_bytes += request_bytes;
  figures->response_bytes += end.response_bytes;
}

}  // namespace

Conductor::Conductor(ConductorOptions options)
    : options_(std::move(options)), random_(options_.seed) {
  assert(options_.slots >= 1 && !options_.work.empty());
  result_.all = Named("all");
  result_.lag_ns.Reserve();
  result_.timeline = Timeline(options_.row_ns);
  double sum = 0;
  int requests = 0;
  for (const WorkShare& work : options_.work) {
    result_.work.push_back(Named(work.name));
    weight_sums_.push_back(sum += work.weight);
    first_request_.push_back(requests);
    requests += work.requests;
  }
  next_request_.resize(options_.work.size());
  calls_.resize(options_.slots);
  // The lowest first, so that few calls use few connections' first places.
  for (int slot = options_.slots; slot-- > 0;) free_.push_back(slot);
  retries_.reserve(options_.slots);
  if (options_.arrivals) Advance();
}

bool Conductor::Ended(int64_t planned_ns) const {
  return (options_.duration_ns > 0 &&
          planned_ns >= options_.warm_up_ns + options_.duration_ns) ||
         (options_.calls > 0 && result_.planned == options_.calls);
}

void Conductor::Advance() {
  next_ = over_ ? std::nullopt : options_.arrivals->Next();
  if (next_ && Ended(*next_)) next_.reset();
  if (!next_) over_ = true;
}

Conductor::Call Conductor::Plan(int64_t planned_ns) {
  const double draw = random_.Uniform() * weight_sums_.back();
  const int work = static_cast<int>(
      std::upper_bound(weight_sums_.begin(), weight_sums_.end() - 1, draw) -
      weight_sums_.begin());
  int& next = next_request_[work];
  const int request = first_request_[work] + next;
  next = (next + 1) % options_.work[work].requests;
  const bool verify = random_.Uniform() < options_.verify_share;
  if (measured(planned_ns)) {
    if (result_.planned++ == 0) first_planned_ns_ = planned_ns;
    last_planned_ns_ = planned_ns;
    result_.timeline.Count(Timeline::Event::kPlanned,
                           planned_ns - options_.warm_up_ns);
  }
  return {.planned_ns = planned_ns,
          .request = request,
          .work = work,
          .verify = verify};
}

Attempt Conductor::Begin(const Call& call, int64_t now_ns) {
  const int slot = free_.back();
  free_.pop_back();
  calls_[slot] = call;
  calls_[slot].first_sent_ns = now_ns;
  if (measured(call.planned_ns)) {
    ++result_.attempts;
    result_.timeline.Count(Timeline::Event::kStarted,
                           now_ns - options_.warm_up_ns);
  }
  return {
      .slot = slot, .request = call.request, .timeout_ns = options_.timeout_ns};
}

Attempt Conductor::Again(int64_t now_ns) {
  std::pop_heap(retries_.begin(), retries_.end());
  const int slot = retries_.back().slot;
  retries_.pop_back();
  const Call& call = calls_[slot];
  if (measured(call.planned_ns)) ++result_.attempts;
  return {.slot = slot,
          .request = call.request,
          .previous = call.attempts,
          .timeout_ns = std::max<int64_t>(
              options_.timeout_ns - (now_ns - call.first_sent_ns), 1)};
}

void Conductor::Drop(int64_t planned_ns) {
  if (!measured(planned_ns)) {
    ++result_.warm_up_dropped;
    return;
  }
  ++result_.dropped;
  result_.timeline.Count(Timeline::Event::kDropped,
                         planned_ns - options_.warm_up_ns);
}

std::optional<Attempt> Conductor::Take(int64_t now_ns) {
  if (!retries_.empty() && retries_.front().due_ns <= now_ns) {
    return Again(now_ns);
  }
  if (!options_.arrivals) {
    over_ = over_ || Ended(now_ns);
    if (over_ || free_.empty()) return {};
    return Begin(Plan(now_ns), now_ns);
  }
  while (next_ && *next_ <= now_ns) {
    const int64_t planned_ns = *next_;
    if (free_.empty() && options_.wait_when_full) return {};
    const Call call = Plan(planned_ns);
    Advance();
    if (free_.empty()) {
      Drop(planned_ns);
      continue;
    }
    if (measured(planned_ns)) {
      if (planned_ns < full_until_ns_) {
        ++result_.waited;
      } else {
        result_.lag_ns.Record(now_ns - planned_ns);
      }
    }
    return Begin(call, now_ns);
  }
  return {};
}

std::optional<int64_t> Conductor::NextDue() const {
  std::optional<int64_t> due;
  if (!free_.empty() || !options_.wait_when_full) due = next_;
  if (!options_.arrivals && !over_ && !free_.empty()) due = 0;
  if (!retries_.empty()) {
    due = std::min(due.value_or(retries_.front().due_ns),
                   retries_.front().due_ns);
  }
  return due;
}

bool Conductor::WillRetry(const Call& call, const AttemptEnd& end) {
  if (end.status.ok() || options_.max_attempts == 1) return false;
  const int64_t left =
      options_.timeout_ns - (end.ended_ns - call.first_sent_ns);
  const std::optional<absl::Duration> wait =
      RetryWait(end.status, call.attempts, options_.max_attempts,
                absl::Nanoseconds(left), random_.Uniform());
  if (!wait) return false;
  retries_.push_back(
      {end.ended_ns + absl::ToInt64Nanoseconds(*wait), end.slot});
  std::push_heap(retries_.begin(), retries_.end());
  return true;
}

void Conductor::Record(const Call& call, const AttemptEnd& end) {
  last_end_ns_ = std::max(last_end_ns_, end.ended_ns);
  const int64_t latency_ns = end.ended_ns - call.planned_ns;
  const int64_t bytes = options_.work[call.work].request_bytes;
  RecordIn(end, latency_ns, bytes, &result_.all);
  RecordIn(end, latency_ns, bytes, &result_.work[call.work]);
  if (end.endpoint >= 0) {
    while (static_cast<int>(result_.endpoints.size()) <= end.endpoint) {
      result_.endpoints.push_back(Named(""));
    }
    RecordIn(end, latency_ns, bytes, &result_.endpoints[end.endpoint]);
  }
  result_.timeline.Count(
      end.status.ok() ? Timeline::Event::kOk : Timeline::Event::kFailed,
      end.ended_ns - options_.warm_up_ns);
  if (end.status.ok()) {
    result_.timeline.Latency(call.planned_ns - options_.warm_up_ns, latency_ns);
  }
}

std::optional<Answer> Conductor::End(const AttemptEnd& end) {
  Call& call = calls_[end.slot];
  ++call.attempts;
  if (WillRetry(call, end)) return {};
  if (free_.empty()) full_until_ns_ = end.ended_ns;
  free_.push_back(end.slot);
  if (!measured(call.planned_ns)) {
    ++result_.warm_up_calls;
    if (!end.status.ok()) ++result_.warm_up_failed;
    return {};
  }
  Record(call, end);
  if (!end.status.ok()) return {};
  return Answer{.request = call.request, .verify = call.verify};
}

void Conductor::Stop() {
  result_.interrupted = result_.interrupted || !over_;
  over_ = true;
  next_.reset();
}

int Conductor::in_flight() const {
  return options_.slots - static_cast<int>(free_.size());
}

bool Conductor::finished() const { return over_ && in_flight() == 0; }

LoadResult Conductor::Finish() {
  if (result_.all.ok + result_.all.failed > 0) {
    result_.span_seconds =
        static_cast<double>(last_end_ns_ - first_planned_ns_) * 1e-9;
  }
  if (result_.planned > 0) {
    result_.schedule_seconds =
        static_cast<double>(last_planned_ns_ - first_planned_ns_) * 1e-9;
  }
  return std::move(result_);
}

}  // namespace attnd::client
