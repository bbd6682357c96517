// What the transport costs: the same bytes over raw TCP, over a bare gRPC
// callback echo, and through attnd, in one process and one run.
//
//   transport_bench [--rounds N]
//
// Large: 3 x 1 MiB in, 1 MiB out (B1 H8 L512 D64, f32). Small: B1 H1 L8 D16, 16
// calls in flight. One worker, so that the kernel alone, on one thread, is what
// to subtract. The client sends bytes that were serialized before and does not
// parse the reply, the same for the echo and for attnd: what attnd adds is its
// server side. Prints one JSON object; times are medians over interleaved
// rounds.
#include <arpa/inet.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "attnd/v1/attention.grpc.pb.h"
#include "kernels/attention.h"
#include "kernels/plan.h"
#include "server/config.h"
#include "server/machine.h"
#include "server/memory.h"
#include "server/server.h"

namespace attnd {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kMethod[] = "/attnd.v1.AttentionScoring/Attend";
constexpr int kSmallInFlight = 16;
constexpr int kCallsPerRound = 8;
constexpr std::chrono::milliseconds kSmallTime(300);

struct Sizes {
  int64_t heads, rows, dim;
};
constexpr Sizes kLarge = {8, 512, 64};
constexpr Sizes kSmall = {1, 8, 16};

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "transport_bench: %s\n", what.c_str());
  std::exit(1);
}

double SecondsOf(const std::function<void()>& work) {
  const Clock::time_point start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2,
                   values.end());
  return values[values.size() / 2];
}

int64_t MinorFaults() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

// ---- the bytes --------------------------------------------------------------

v1::AttendRequest MakeRequest(const Sizes& sizes) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  v1::AttendRequest request;
  for (v1::Tensor* tensor : {request.mutable_query(), request.mutable_key(),
                             request.mutable_value()}) {
    tensor->set_dtype(v1::DTYPE_F32);
    for (int64_t extent : {int64_t{1}, sizes.heads, sizes.rows, sizes.dim}) {
      tensor->add_shape(extent);
    }
    std::vector<float> values(sizes.heads * sizes.rows * sizes.dim);
    for (float& x : values) x = normal(random);
    tensor->set_data(values.data(), values.size() * sizeof(float));
  }
  return request;
}

grpc::ByteBuffer ToBytes(const google::protobuf::Message& message) {
  grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

// ---- raw TCP ----------------------------------------------------------------

void SendAll(int socket, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t sent = send(socket, data, size, MSG_NOSIGNAL);
    if (sent <= 0) Fail("send");
    data += sent;
    size -= static_cast<size_t>(sent);
  }
}

// False at the end of the stream.
bool ReceiveAll(int socket, char* data, size_t size) {
  while (size > 0) {
    const ssize_t got = recv(socket, data, size, 0);
    if (got <= 0) return false;
    data += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

// Answers every `in` bytes with `out` bytes over loopback.
class TcpEcho {
 public:
  TcpEcho(size_t in, size_t out) : request_(in), reply_(out) {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (bind(listener, generic, length) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, generic, &length) != 0) {
      Fail("cannot listen on loopback");
    }
    client_ = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(client_, generic, length) != 0) Fail("connect");
    const int served = accept(listener, nullptr, nullptr);
    close(listener);
    const int on = 1;
    setsockopt(client_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(served, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    server_ = std::thread([served, in, out] {
      std::vector<char> request(in), reply(out);
      while (ReceiveAll(served, request.data(), in)) {
        SendAll(served, reply.data(), out);
      }
      close(served);
    });
  }
  ~TcpEcho() {
    shutdown(client_, SHUT_RDWR);
    server_.join();
    close(client_);
  }
  void Call() {
    SendAll(client_, request_.data(), request_.size());
    if (!ReceiveAll(client_, reply_.data(), reply_.size())) Fail("recv");
  }

 private:
  std::vector<char> request_, reply_;
  int client_ = -1;
  std::thread server_;
};

// ---- gRPC -------------------------------------------------------------------

// Takes a message as it is and answers with fixed bytes, both unparsed.
class EchoService final
    : public v1::AttentionScoring::WithRawCallbackMethod_Attend<
          v1::AttentionScoring::Service> {
 public:
  explicit EchoService(const grpc::ByteBuffer& reply) : reply_(reply) {}
  grpc::ServerUnaryReactor* Attend(grpc::CallbackServerContext* context,
                                   const grpc::ByteBuffer*,
                                   grpc::ByteBuffer* reply) override {
    *reply = reply_;
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 private:
  const grpc::ByteBuffer reply_;
};

class Echo {
 public:
  explicit Echo(const grpc::ByteBuffer& reply) : service_(reply) {
    grpc::ServerBuilder builder;
    builder.SetMaxReceiveMessageSize(128 << 20);
    builder.RegisterService(&service_);
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) Fail("the echo cannot listen");
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  EchoService service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// Sends one message again and again.
class Caller {
 public:
  Caller(const std::string& address, const grpc::ByteBuffer& request)
      : request_(request), stub_(MakeChannel(address)) {}

  grpc::ByteBuffer Call() {
    std::promise<void> done;
    Pending call;
    Start(call, [&done] { done.set_value(); });
    done.get_future().wait();
    return call.reply;
  }

  // Calls a second with `in_flight` calls at any time.
  double Rate(int in_flight, Clock::duration time) {
    std::vector<std::unique_ptr<Pending>> calls;
    std::atomic<int64_t> finished{0};
    std::atomic<int> running{in_flight};
    std::promise<void> all_done;
    const Clock::time_point start = Clock::now(), end = start + time;
    std::function<void(Pending&)> loop = [&](Pending& call) {
      call.context.emplace();
      Start(call, [&, this] {
        ++finished;
        if (Clock::now() < end) {
          loop(call);
        } else if (--running == 0) {
          all_done.set_value();
        }
      });
    };
    for (int i = 0; i < in_flight; ++i) {
      calls.push_back(std::make_unique<Pending>());
    }
    for (auto& call : calls) loop(*call);
    all_done.get_future().wait();
    return static_cast<double>(finished) /
           std::chrono::duration<double>(Clock::now() - start).count();
  }

 private:
  struct Pending {
    std::optional<grpc::ClientContext> context{std::in_place};
    grpc::ByteBuffer reply;
  };

  static std::shared_ptr<grpc::Channel> MakeChannel(
      const std::string& address) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(128 << 20);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(
        address, grpc::InsecureChannelCredentials(), arguments);
  }

  void Start(Pending& call, std::function<void()> done) {
    stub_.UnaryCall(&*call.context, kMethod, {}, &request_, &call.reply,
                    [done = std::move(done)](grpc::Status status) {
                      if (!status.ok()) Fail(status.error_message());
                      done();
                    });
  }

  const grpc::ByteBuffer request_;
  grpc::GenericStub stub_;
};

// ---- attnd and its kernel ---------------------------------------------------

std::unique_ptr<server::Server> StartAttnd() {
  const server::Machine machine = server::ReadMachine();
  const auto config = server::ParseConfig(
      "listeners: [{address: '127.0.0.1:0'}]\n"
      "admin: {address: 'off'}\n"
      "workers: 1\n"
      "log: {level: warning}\n",
      "bench", machine);
  if (!config.ok()) Fail(std::string(config.status().message()));
  auto server = server::Server::Start(*config, machine);
  if (!server.ok()) Fail(std::string(server.status().message()));
  return *std::move(server);
}

// The kernel alone on the tensors of a request.
class Kernel {
 public:
  Kernel(const v1::AttendRequest& request, const Sizes& sizes) {
    const auto tensor = [&](const v1::Tensor& t) {
      return *TensorRef::Make(
          absl::MakeConstSpan(t.data().data(), t.data().size()), DType::kF32,
          Layout::kBHLD, {1, sizes.heads, sizes.rows, sizes.dim});
    };
    AttentionProblem problem;
    problem.query = tensor(request.query());
    problem.key = tensor(request.key());
    problem.value = tensor(request.value());
    problem.scale = 0.125f;
    plan_ = std::make_unique<Plan>(*Plan::Make(problem));
    output_.resize(plan_->output_elements());
    workspace_ = *Workspace::Create();
  }
  void Run() {
    OutputBuffers out;
    out.output = absl::MakeSpan(output_);
    if (!RunAll(*plan_, *workspace_, out).ok()) Fail("the kernel failed");
  }

 private:
  std::unique_ptr<Plan> plan_;
  std::vector<float> output_;
  std::unique_ptr<Workspace> workspace_;
};

void Run(int rounds) {
  const v1::AttendRequest large = MakeRequest(kLarge);
  const grpc::ByteBuffer large_bytes = ToBytes(large);
  const grpc::ByteBuffer small_bytes = ToBytes(MakeRequest(kSmall));
  Kernel kernel(large, kLarge);
  const auto attnd = StartAttnd();
  Caller attnd_large(attnd->addresses()[0], large_bytes);
  Caller attnd_small(attnd->addresses()[0], small_bytes);
  // The echo answers what attnd answered.
  const grpc::ByteBuffer large_reply = attnd_large.Call();
  Echo large_echo(large_reply);
  Echo small_echo(attnd_small.Call());
  Caller bare_large(large_echo.address(), large_bytes);
  Caller bare_small(small_echo.address(), small_bytes);
  TcpEcho tcp(large_bytes.Length(), large_reply.Length());

  std::vector<double> tcp_s, bare_s, wall_s, compute_s, bare_rps, attnd_rps;
  int64_t faults = 0;
  for (int round = -1; round < rounds; ++round) {
    // Round -1 warms up.
    const auto keep = [&](std::vector<double>& to, double value) {
      if (round >= 0) to.push_back(value);
    };
    for (int i = 0; i < kCallsPerRound; ++i) {
      keep(tcp_s, SecondsOf([&] { tcp.Call(); }));
      keep(bare_s, SecondsOf([&] { bare_large.Call(); }));
      const int64_t before = MinorFaults();
      keep(wall_s, SecondsOf([&] { attnd_large.Call(); }));
      if (round >= 0) faults += MinorFaults() - before;
      keep(compute_s, SecondsOf([&] { kernel.Run(); }));
    }
    keep(bare_rps, bare_small.Rate(kSmallInFlight, kSmallTime));
    keep(attnd_rps, attnd_small.Rate(kSmallInFlight, kSmallTime));
  }
  const double wall = Median(wall_s), compute = Median(compute_s);
  const double bare = Median(bare_s);
  std::printf(
      "{\"raw_tcp_seconds\": %.6f, \"bare_grpc_seconds\": %.6f, "
      "\"attnd_wall_seconds\": %.6f, \"attnd_compute_seconds\": %.6f, "
      "\"bare_grpc_small_rps\": %.0f, \"attnd_small_rps\": %.0f, "
      "\"overhead_ratio\": %.3f, \"small_ratio\": %.3f, "
      "\"minor_faults_per_call\": %.1f}\n",
      Median(tcp_s), bare, wall, compute, Median(bare_rps), Median(attnd_rps),
      (wall - compute) / bare, Median(attnd_rps) / Median(bare_rps),
      static_cast<double>(faults) / static_cast<double>(wall_s.size()));
}

}  // namespace
}  // namespace attnd

int main(int argc, char** argv) {
  attnd::server::KeepFreedMemory();
  int rounds = 15;
  if (argc == 3 && std::strcmp(argv[1], "--rounds") == 0) {
    rounds = std::atoi(argv[2]);
  } else if (argc != 1) {
    attnd::Fail("usage: transport_bench [--rounds N]");
  }
  attnd::Run(std::max(1, rounds));
  return 0;
}
