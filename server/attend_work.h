// One attention request from its message to its outcome, whoever brought it: an
// Attend call, or a message of a stream.
#ifndef ATTND_SERVER_ATTEND_WORK_H_
#define ATTND_SERVER_ATTEND_WORK_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "attnd/v1/attention.pb.h"
#include "google/protobuf/arena.h"
#include "server/admission.h"
#include "server/decode.h"
#include "server/executor.h"
#include "server/linear_run.h"
#include "server/reply.h"
#include "server/service_context.h"
#include "server/settings.h"

namespace attnd::server {

// What is known of a request before it is read.
struct Arrival {
  Method method = Method::kAttend;
  Instant at;
  Instant deadline;
  // A client library repeats what failed before: not counted as demand.
  bool is_retry = false;
  // In force at that moment, and who asks.
  std::shared_ptr<const Settings> settings = nullptr;
  Tenant tenant = {};
};

// How a request ended.
struct Outcome {
  absl::Status status;
  ReplyPieces reply = {};     // a serialized AttendResponse, if OK
  std::string encoding = {};  // its name, as far as it is known
  double queue_seconds = 0;
  double compute_seconds = 0;
};

// Counts how a job ended and words it for its caller.
absl::Status CountEnd(const JobResult& result, Metrics& metrics);

// Decodes, plans and asks for admission on the thread that begins it; where an
// encoding must be compiled first or the plan takes long, that, and all that
// follows, is done on a worker. Runs on workers; ends on whichever thread does
// the last piece.
class AttendWork {
 public:
  // Who brought the request.
  class Owner {
   public:
    virtual ~Owner() = default;
    // Exactly once; the work is not touched afterwards, so it may be destroyed.
    virtual void Ended(Outcome outcome) = 0;
  };

  AttendWork(const ServiceContext& context, const Arrival& arrival,
             Owner& owner);
  AttendWork(const AttendWork&) = delete;
  AttendWork& operator=(const AttendWork&) = delete;

  // Where to put the request; complete before Begin, not changed after.
  v1::AttendRequest& request() { return request_; }
  google::protobuf::Arena& arena() { return arena_; }  // that it lies in
  Instant deadline() const { return arrival_.deadline; }
  // `message_bytes` is what the request came in. Ended may be called from
  // within.
  void Begin(int64_t message_bytes);
  // Ends it with a refusal instead.
  void Refuse(const absl::Status& status);
  // What to cancel when the caller left. On any thread, until Ended has
  // returned.
  std::array<Job*, 2> jobs() { return {&preparation_, &computation_}; }

 private:
  // What precedes computing, when it must be done on a worker.
  class Preparation : public Job {
   public:
    explicit Preparation(AttendWork& work) : work_(work) {}

   private:
    absl::Status Start() override;
    absl::Status Run(int64_t unit, Workspace* workspace,
                     const std::atomic<bool>& stop) override;
    void Done(const JobResult& result) override;
    AttendWork& work_;
  };
  class Computation : public Job {
   public:
    explicit Computation(AttendWork& work) : work_(work) {}

   private:
    absl::Status Start() override;
    absl::Status Run(int64_t unit, Workspace* workspace,
                     const std::atomic<bool>& stop) override;
    void Done(const JobResult& result) override;
    AttendWork& work_;
  };

  absl::Status Prepare(Compiling compiling, const std::atomic<bool>* stop);
  absl::Status SubmitPreparation();
  absl::Status Admit();
  absl::Status MakePlan();
  Place PlaceFor(double seconds, int64_t units) const;
  void Submit();
  int64_t units() const;
  int64_t flops() const;
  Work PlannedWork(const MessageBytes& bytes) const;
  void WriteReply();
  void ChargeReply();
  void End(const absl::Status& status);

  const ServiceContext& context_;
  const Arrival arrival_;
  const Settings& settings_;
  Owner& owner_;

  // The request but its larger bytes, in place: a small one allocates next to
  // nothing.
  alignas(8) char arena_start_[1536];
  google::protobuf::Arena arena_;
  v1::AttendRequest& request_;
  int64_t message_bytes_ = 0;
  DecodedRequest decoded_;
  bool is_decoded_ = false;
  // One of the two, by kind.
  std::optional<Plan> plan_;
  std::unique_ptr<LinearRun> linear_;
  ReplyTensors tensors_;
  OutputBuffers buffers_;
  Work modelled_;
  double predicted_seconds_ = 0;
  double prepared_seconds_ = 0;  // predicted, of the preparation
  // Over the units that are done, on any worker.
  std::atomic<int64_t> skipped_tiles_{0};
  std::atomic<double> lost_mass_bound_{0};
  Admission::Ticket ticket_;
  Outcome outcome_;
  Preparation preparation_{*this};
  Computation computation_{*this};
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_ATTEND_WORK_H_
