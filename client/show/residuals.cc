#include "client/show/residuals.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/random.h"
#include "client/resolved/attention.h"
#include "client/resolved/generator.h"
#include "client/resolved/probe_request.h"
#include "client/resolved/verdict.h"
#include "client/show/curves.h"

namespace attnd::client {
namespace {

using resolved::Generator;
using resolved::Matrix;

// Sums of any two are exact doubles.
constexpr double kLags[] = {0x1p-10, 0.5, 1, 3, 17, 1024.25, 65537, 0x1p20};
// Of a matrix product and an exponential in double, per unit of condition.
constexpr double kRounding = 1e-9;
constexpr int kVectors = 8;
constexpr int64_t kYearNs = int64_t{365} * 86400 * 1'000'000'000;

double Largest(const Matrix& m) {
  double largest = 0;
  for (double x : m.entries) largest = std::max(largest, std::abs(x));
  return largest;
}

double Distance(const Matrix& a, const Matrix& b) {
  double largest = 0;
  for (size_t e = 0; e < a.entries.size(); ++e) {
    largest = std::max(largest, std::abs(a.entries[e] - b.entries[e]));
  }
  return largest;
}

// |A x| / |x|, the largest and the smallest over some x.
std::pair<double, double> Stretch(const Matrix& a, Random& random) {
  double most = 0, least = HUGE_VAL;
  for (int n = 0; n < kVectors; ++n) {
    std::vector<double> x(a.size);
    double before = 0, after = 0;
    for (double& v : x) before += std::pow(v = random.Normal(), 2);
    for (int r = 0; r < a.size; ++r) {
      double sum = 0;
      for (int c = 0; c < a.size; ++c) sum += a(r, c) * x[c];
      after += sum * sum;
    }
    most = std::max(most, std::sqrt(after / before));
    least = std::min(least, std::sqrt(after / before));
  }
  return {least, most};
}

// What the blocks of a generator are, as far as properties depend on it.
struct Class {
  bool turns_only = true, chains = false, amplified = false;
};

Class ClassOf(const v1::ResolvedGenerator& generator) {
  Class out;
  for (const v1::ResolvedBlock& block : generator.blocks()) {
    const std::string& kind = block.kind();
    out.turns_only &= kind == "identity" || kind == "rotation";
    out.chains |= block.coupling() != 0 || kind == "dense";
    out.amplified |= block.amplitude() != 1;
  }
  return out;
}

// So that no figure times a lag leaves the doubles: they know nothing there.
double LagScale(const v1::ResolvedGenerator& generator) {
  double largest = 0;
  for (const v1::ResolvedBlock& block : generator.blocks()) {
    for (const double figure :
         {block.frequency(), block.rate(), block.coupling()}) {
      largest = std::max(largest, std::abs(figure));
    }
    for (const v1::ResolvedTerm& term : block.further()) {
      largest = std::max(largest, std::abs(term.frequency()));
    }
  }
  return largest > 1e290 ? 0x1p-60 : 1;
}

// Short ones where a slope times a usual lag would leave the doubles.
void ShortenGaps(const v1::ResolvedEncoding& encoding, resolved::Probe& probe) {
  double steepest = 0;
  for (double slope : encoding.alibi_slopes()) {
    steepest = std::max(steepest, slope);
  }
  if (steepest < 1e290) return;
  probe.shortest_gap *= 1e-8;
  probe.longest_gap *= 1e-8;
}

struct Worst {
  double identity = 0, group = 0, shrink = 1, grow = 0;
};

absl::Status Measure(v1::ResolvedGenerator resolved, int dim, Worst& worst) {
  for (v1::ResolvedBlock& block : *resolved.mutable_blocks()) {
    block.set_amplitude(1);
  }
  const auto generator = Generator::Make(resolved, dim);
  if (!generator.ok()) return generator.status();
  Random random(1);
  worst.identity = std::max(
      worst.identity, Distance(generator->At(0.0), Matrix::Identity(dim)));
  const double scale = LagScale(resolved);
  for (double a : kLags) {
    a *= scale;
    const Matrix at_a = generator->At(a);
    const auto [least, most] = Stretch(at_a, random);
    worst.shrink = std::min(worst.shrink, least);
    worst.grow = std::max(worst.grow, most);
    for (double b : kLags) {
      b *= scale;
      const Matrix at_b = generator->At(b);
      const double size = std::max(1.0, Largest(at_a) * Largest(at_b));
      worst.group = std::max(
          worst.group, Distance(at_a * at_b, generator->At(a + b)) / size);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Residual>> KernelResiduals(
    const v1::ResolvedEncoding& encoding) {
  Worst worst;
  Class all;
  bool averaged = false, free = false;
  for (const v1::ResolvedGenerator& generator : encoding.generators()) {
    absl::Status status = Measure(generator, encoding.head_dim(), worst);
    if (!status.ok()) return status;
    const Class one = ClassOf(generator);
    all.turns_only &= one.turns_only;
    all.chains |= one.chains;
    all.amplified |= one.amplified;
    averaged |= generator.averaged();
    for (const v1::ResolvedBlock& b : generator.blocks()) {
      free |= b.kind() == "liere";
    }
  }
  const double bound = kRounding * resolved::ConditionOf(encoding);
  const char* amplitude = all.amplified ? "amplitude set aside" : "";
  std::vector<Residual> residuals;
  residuals.push_back({"A(0) = I", worst.identity, bound, true, amplitude});
  residuals.push_back({"A(a) A(b) = A(a+b)", worst.group, bound,
                       !averaged && !free,
                       averaged ? "no group: averaged over the lag"
                       : free   ? "no group: axes do not commute"
                                : amplitude});
  const bool orthogonal = resolved::ConditionOf(encoding) < 1 + 1e-9;
  if (all.turns_only && orthogonal && !averaged) {
    residuals.push_back({"|A(D) x| = |x|",
                         std::max(worst.grow - 1, 1 - worst.shrink), bound,
                         true, ""});
  } else {
    const bool contracts = !all.chains && orthogonal;
    residuals.push_back(
        {"|A(D) x| <= |x|", std::max(0.0, worst.grow - 1), bound, contracts,
         contracts ? ""
                   : absl::StrFormat("not promised; largest stretch seen %.3g",
                                     worst.grow)});
  }
  return residuals;
}

absl::StatusOr<std::vector<Residual>> ServerResiduals(
    const v1::ResolvedEncoding& encoding, const Client& client,
    const CallOptions& call) {
  resolved::Probe probe;
  probe.heads = HeadsOf(encoding);
  probe.kv_heads =
      encoding.generators_size() > 1 ? encoding.generators_size() : probe.heads;
  probe.longest_gap = 100;
  ShortenGaps(encoding, probe);
  const v1::AttendRequest request = resolved::MakeProbe(encoding, probe);
  const auto here = client.Attend(request, call);
  if (!here.ok()) return here.status();
  probe.shift = encoding.unit_nanoseconds() == 0 ? int64_t{1} << 20 : kYearNs;
  const auto there = client.Attend(resolved::MakeProbe(encoding, probe), call);
  // Where a table ends is no fault.
  if (!there.ok() && encoding.relative()) return there.status();
  int64_t changed = 0;
  if (there.ok()) {
    const std::string &a = here->output().data(), &b = there->output().data();
    for (size_t n = 0; n < a.size(); ++n) changed += a[n] != b[n] ? 1 : 0;
  }
  const v1::ResolvedEncoding* one = &encoding;
  const auto answer =
      resolved::Attention(request, absl::MakeConstSpan(&one, 1));
  if (!answer.ok()) return answer.status();
  const auto verdict =
      resolved::Judge(*here, *answer, resolved::ConditionOf(encoding));
  if (!verdict.ok()) return verdict.status();
  return std::vector<Residual>{
      {"shift of all times, bytes changed", static_cast<double>(changed), 0,
       encoding.relative(),
       encoding.relative() ? "" : "depends on absolute times"},
      {"answer, share of the error allowed", verdict->worst(), 1, true, ""}};
}

}  // namespace attnd::client
