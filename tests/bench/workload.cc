#include "tests/bench/workload.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "absl/strings/str_cat.h"

namespace attnd::bench {
namespace {

constexpr int64_t kSecond = 1000000000;

template <typename T>
absl::Span<const char> Bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()),
          values.size() * sizeof(T)};
}

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
  std::abort();
}

}  // namespace

std::string ProblemSize::Name() const {
  return absl::StrCat("B", batch, "_H", heads, "_L", length, "_D", dim);
}

Tensors::Tensors(const ProblemSize& size) : size(size) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  const int64_t count = size.batch * size.heads * size.length * size.dim;
  for (std::vector<float>* values : {&query, &key, &value}) {
    values->resize(count);
    for (float& x : *values) x = normal(random);
  }
  std::exponential_distribution<double> gap(1.0 / kSecond);
  for (int64_t b = 0; b < size.batch; ++b) {
    int64_t t = 1700000000 * kSecond;
    for (int64_t i = 0; i < size.length; ++i) {
      times.push_back(t += static_cast<int64_t>(gap(random)));
    }
  }
  std::uniform_real_distribution<double> decades(-3, 3);
  for (int64_t b = 0; b < size.batch; ++b) {
    int64_t t = 1700000000 * kSecond;
    for (int64_t i = 0; i < size.length; ++i) {
      t += static_cast<int64_t>(std::pow(10.0, decades(random)) * kSecond);
      wide_times.push_back(t);
    }
  }
  for (int64_t t : times) {
    two_axes.push_back(t);
    two_axes.push_back(static_cast<int64_t>(random() % (100 * kSecond)));
  }
  for (int64_t b = 0; b < size.batch; ++b) {
    for (int64_t h = 0; h < size.heads; ++h) {
      for (int64_t i = 0; i < size.length; ++i) {
        const double seconds = static_cast<double>(times[b * size.length + i] -
                                                   times[b * size.length]) /
                               kSecond;
        clock.push_back(static_cast<float>(seconds * (1 + 0.1 * h)));
        gates.push_back(-0.1f *
                        std::uniform_real_distribution<float>()(random));
      }
    }
  }
}

std::vector<Case> Cases() {
  EncodingSpec rope, alibi;
  rope.blocks = {RotaryBlock{}};
  alibi.biases = {AlibiTerm{}};
  rope.unit_ns = alibi.unit_ns = kSecond;
  return {{.name = "plain", .causal = false, .encoding = {}},
          {.name = "causal", .causal = true, .encoding = {}},
          {.name = "rope", .causal = true, .encoding = rope},
          {.name = "alibi", .causal = true, .encoding = alibi}};
}

std::vector<Case> Bf16Cases() {
  std::vector<Case> cases;
  for (Case& which : Cases()) {
    if (which.name != "plain" && which.name != "rope") continue;
    which.baseline = which.name;
    which.name += "_bf16";
    which.bf16 = true;
    cases.push_back(std::move(which));
  }
  return cases;
}

namespace {

constexpr double kWideTileSpan = 9265;  // s, 128 mean gaps of wide_times

std::vector<double> LogSpaced(int count, double low, double high) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) {
    values.push_back(low * std::pow(high / low, i / (count - 1.0)));
  }
  return values;
}

EncodingSpec Spec(Block block) {
  EncodingSpec spec;
  spec.blocks = {std::move(block)};
  spec.unit_ns = kSecond;
  return spec;
}

// A stable dense generator: well separated damped rotations in a random basis
// near the identity.
std::vector<double> DenseMatrix(int dim, const std::vector<double>& rates) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal(0, 0.02);
  std::vector<double> x(static_cast<size_t>(dim) * dim, 0.0);
  for (int r = 0; r < dim; ++r) {
    x[r * dim + r] = -rates[r];
    // Upper triangular: the eigenvalues stay the rates.
    for (int c = r + 1; c < dim; ++c) {
      x[r * dim + c] = normal(random) * (rates[c] + rates[r]);
    }
  }
  return x;
}

EncodingSpec Spec(BiasTerm term) {
  EncodingSpec spec;
  spec.biases = {std::move(term)};
  spec.unit_ns = kSecond;
  return spec;
}

std::vector<float> Normals(size_t count) {
  std::mt19937_64 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& x : values) x = normal(random);
  return values;
}

FireTerm Fire(int heads) {
  constexpr int kHidden = 32;
  FireTerm fire;
  fire.hidden = kHidden;
  fire.w1 = Normals(kHidden);
  fire.b1 = Normals(kHidden);
  fire.w2 = Normals(static_cast<size_t>(heads) * kHidden);
  fire.b2 = Normals(heads);
  return fire;
}

}  // namespace

std::vector<Case> BiasFamilies(int heads) {
  std::vector<Case> cases;
  const auto add = [&](std::string name, BiasTerm term, bool gates = false) {
    cases.push_back({.name = std::move(name),
                     .causal = true,
                     .encoding = Spec(std::move(term)),
                     .wide = true,
                     .gates = gates});
  };
  const std::vector<double> halves(heads, 0.5);
  add("alibi_wide", AlibiTerm{});
  add("fox", CumulativeGateTerm{}, true);
  add("path_integral", PathIntegralTerm{}, true);
  add("kerple_log", KerpleTerm{.power = false, .r1 = halves, .r2 = halves});
  add("kerple_power", KerpleTerm{.power = true, .r1 = halves, .r2 = halves});
  add("fire", Fire(heads));
  add("sandwich", SandwichTerm{});
  T5Term t5;
  t5.table = Normals(static_cast<size_t>(heads) * t5.buckets);
  add("t5", std::move(t5));
  HstuTerm hstu;
  hstu.table = Normals(static_cast<size_t>(heads) * (hstu.max_bucket + 1));
  add("hstu", std::move(hstu));
  LagTableTerm table;
  table.lags = LogSpaced(64, 1e-3, 1e6);
  table.values = Normals(static_cast<size_t>(heads) * table.lags.size());
  add("lag_table", std::move(table));
  return cases;
}

std::vector<Case> LongHistories() {
  Case window{.name = "window128", .causal = true, .encoding = {}};
  window.past_ticks = 128 * kSecond;
  AlibiTerm alibi;
  alibi.slopes = std::vector<double>(8, 16.6 / 64);
  Case whole{.name = "horizon64", .causal = true, .encoding = Spec(alibi)};
  Case pruned = whole;
  pruned.name = "horizon64_pruned";
  pruned.prune_tolerance = 6e-8;
  pruned.baseline = whole.name;
  return {window, whole, pruned};
}

std::vector<Case> Families(int dim) {
  const double low = 1e-3 / kWideTileSpan, high = 1e3 / kWideTileSpan;
  const std::vector<double> rates = LogSpaced(dim, low, high);
  const std::vector<double> plane_rates = LogSpaced(dim / 2, low, high);
  const std::vector<double> omegas = RotaryFrequencies(dim, 10000);
  const auto wide = [](std::string name, EncodingSpec spec) {
    return Case{.name = std::move(name),
                .causal = true,
                .encoding = std::move(spec),
                .wide = true};
  };
  std::vector<Case> cases;
  cases.push_back(wide("causal_wide", {}));
  RotaryBlock yarn, axial;
  YarnScaling scaling;
  scaling.factor = 4;
  scaling.original_length = 4096;
  yarn.scaling = scaling;
  axial.axes = {.sections = {dim / 4, dim / 4},
                .order = AxisSections::Order::kAxial};
  cases.push_back({.name = "yarn", .causal = true, .encoding = Spec(yarn)});
  cases.push_back({.name = "axial",
                   .causal = true,
                   .encoding = Spec(axial),
                   .two_axes = true});
  cases.push_back({.name = "clock",
                   .causal = true,
                   .encoding = Spec(Block(RotaryBlock{}, Drive{.clock = true})),
                   .clock = true});
  cases.push_back(wide("decay", Spec(DecayBlock{.rates = rates})));
  cases.push_back(wide(
      "damped",
      Spec(DampedRotationBlock{.frequencies = omegas, .rates = plane_rates})));
  cases.push_back(wide(
      "jordan3", Spec(RealJordanBlock{.size = 3,
                                      .rates = LogSpaced(dim / 3, low, high),
                                      .tau = kWideTileSpan,
                                      .chains = dim / 3})));
  cases.push_back(wide(
      "complex_jordan2",
      Spec(ComplexJordanBlock{.size = 2,
                              .frequencies = RotaryFrequencies(dim / 2, 10000),
                              .rates = LogSpaced(dim / 4, low, high),
                              .eta = 1 / kWideTileSpan})));
  cases.push_back(wide(
      "dense",
      Spec(DenseMatrixBlock{.dim = dim, .matrix = DenseMatrix(dim, rates)})));
  return cases;
}

Run::Run(const Tensors& tensors, const Case& which) {
  const ProblemSize& s = tensors.size;
  const int64_t kv_heads = s.kv_heads == 0 ? s.heads : s.kv_heads;
  const Shape4 shape{s.batch, kv_heads, s.length, s.dim};
  const int64_t kv_bytes = s.batch * kv_heads * s.length * s.dim *
                           static_cast<int64_t>(sizeof(float));
  AttentionProblem problem;
  const int64_t queries = s.queries == 0 ? s.length : s.queries;
  problem.query = OrDie(TensorRef::Make(
      Bytes(tensors.query)
          .subspan(0, s.batch * s.heads * queries * s.dim * sizeof(float)),
      DType::kF32, Layout::kBHLD, {s.batch, s.heads, queries, s.dim}));
  problem.key = OrDie(TensorRef::Make(Bytes(tensors.key).subspan(0, kv_bytes),
                                      DType::kF32, Layout::kBHLD, shape));
  problem.value =
      OrDie(TensorRef::Make(Bytes(tensors.value).subspan(0, kv_bytes),
                            DType::kF32, Layout::kBHLD, shape));
  const std::vector<int64_t>& times = which.wide       ? tensors.wide_times
                                      : which.two_axes ? tensors.two_axes
                                                       : tensors.times;
  problem.key_time =
      OrDie(TimeAxis::Make(TimeAxis::Kind::kTicks, Bytes(times), s.batch,
                           s.length, true, which.two_axes ? 2 : 1));
  problem.query_time = problem.key_time;
  if (s.queries > 0) {
    problem.query_time = OrDie(TimeAxis::Make(
        TimeAxis::Kind::kTicks,
        Bytes(times).subspan((s.length - queries) * sizeof(int64_t)), s.batch,
        queries, true, 1));
  }
  if (which.clock) {
    problem.query_clock = problem.key_clock =
        OrDie(TensorRef::Make(Bytes(tensors.clock), DType::kF32, Layout::kBHLD,
                              {s.batch, s.heads, s.length, 1}));
  }
  if (which.gates) {
    problem.gates =
        OrDie(TensorRef::Make(Bytes(tensors.gates), DType::kF32, Layout::kBHLD,
                              {s.batch, s.heads, s.length, 1}));
  }
  problem.prune_tolerance = which.prune_tolerance;
  problem.bf16_compute = which.bf16;
  problem.mask.causal = which.causal;
  problem.mask.past_ticks = which.past_ticks;
  problem.scale = 1.0f / std::sqrt(static_cast<float>(s.dim));
  if (which.encoding.uses_time()) {
    const int heads = static_cast<int>(s.heads);
    problem.encoder = OrDie(
        Encoder::Compile(which.encoding,
                         {.head_dim = static_cast<int>(s.dim),
                          .query_heads = heads,
                          .kv_heads = heads,
                          .length = s.length},
                         {.tick_ns = 1, .unit_ns = which.encoding.unit_ns}));
  }
  plan_ = std::make_unique<Plan>(OrDie(Plan::Make(problem)));
  output_.resize(plan_->output_elements());
  double pairs = 0;
  for (int64_t b = 0; b < s.batch; ++b) {
    const ItemGeometry& item = plan_->item(b);
    for (int64_t i = 0; i < item.query_rows; ++i) {
      pairs += item.end[i] - item.begin[i];
    }
  }
  visible_flops_ = pairs * static_cast<double>(4 * s.heads * s.dim);
}

void Run::Once(Workspace& workspace) {
  OutputBuffers out;
  out.output = absl::MakeSpan(output_);
  const absl::Status status = RunAll(*plan_, workspace, out);
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::abort();
}

bool Run::OneUnit(int64_t unit, Workspace& workspace) {
  if (unit >= static_cast<int64_t>(plan_->units().size())) return false;
  OutputBuffers out;
  out.output = absl::MakeSpan(output_);
  if (!RunUnit(*plan_, unit, workspace, out).ok()) std::abort();
  return true;
}

}  // namespace attnd::bench
