#include "tests/kernels/random_problem.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace attnd::testing {
namespace {

using Kind = TimeAxis::Kind;

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr int64_t kSecondNs = 1'000'000'000;

// Around the borders of tiles, halves, blocks and vectors.
int64_t RandomRows(Random& random, int64_t most) {
  static const std::vector<int64_t> borders = {16,  32,  64,  128, 192,
                                               256, 320, 384, 512, 1024};
  const int64_t rows = random.Coin()
                           ? random.Pick(borders) + random.Integer(-2, 2)
                           : random.Integer(1, 40);
  return std::min(rows, most);
}

int64_t RandomDim(Random& random, int64_t most) {
  static const std::vector<int64_t> dims = {1,  2,  3,  5,  8,  15,  16, 17,
                                            31, 32, 64, 80, 96, 128, 129};
  return std::min(random.Pick(dims), most);
}

PairLayout RandomLayout(Random& random) {
  return random.Coin() ? PairLayout::kHalfSplit : PairLayout::kInterleaved;
}

std::vector<Block> RandomBlocks(Random& random, int dim) {
  std::vector<Block> blocks;
  int left = dim;
  if (left > 2 && random.Integer(0, 3) == 0) {
    blocks.emplace_back(
        IdentityBlock{.width = static_cast<int>(random.Integer(1, left - 2))});
    left -= std::get<IdentityBlock>(blocks[0].kind).width;
  }
  if (left >= 4 && random.Coin()) {
    const int planes = static_cast<int>(random.Integer(1, left / 4));
    RotationBlock block{.frequencies = {}, .layout = RandomLayout(random)};
    for (int p = 0; p < planes; ++p) {
      block.frequencies.push_back((random.Coin() ? 1 : -1) *
                                  std::exp(12 * random.Uniform() - 9));
    }
    left -= 2 * planes;
    blocks.emplace_back(block);
  }
  if (left >= 2) {
    const int most = left / 2 * 2;
    blocks.emplace_back(RotaryBlock{
        .base = random.Pick(std::vector<double>{100, 10000, 500000}),
        .rotary_dim = random.Coin()
                          ? most
                          : 2 * static_cast<int>(random.Integer(1, most / 2)),
        .layout = RandomLayout(random)});
  }
  return blocks;
}

void SetRandomMask(Random& random, ProblemSpec& spec) {
  spec.causal = random.Coin();
  spec.strict = random.Integer(0, 3) == 0;
  const double seconds = std::exp(10 * random.Uniform() - 3);
  const auto bound = [&] {
    return spec.kind == Kind::kPositions
               ? random.Integer(0, spec.keys)
               : static_cast<int64_t>(seconds * kSecondNs);
  };
  if (random.Integer(0, 2) == 0) {
    spec.past_ticks = bound();
    spec.past_time = seconds;
  }
  if (random.Integer(0, 3) == 0) {
    spec.future_ticks = bound();
    spec.future_time = seconds;
  }
  for (int64_t b = 0; b < spec.batch; ++b) {
    spec.query_lengths.push_back(random.Integer(0, spec.queries));
    spec.key_lengths.push_back(random.Integer(spec.keys / 2, spec.keys));
  }
  if (random.Coin()) spec.query_lengths.clear();
  if (random.Coin()) spec.key_lengths.clear();
  if (random.Integer(0, 3) == 0) {
    for (int64_t j = 0; j < spec.batch * spec.keys; ++j) {
      spec.key_validity.push_back(random.Integer(0, 4) != 0);
    }
  }
}

// Offsets of `items` items over `rows` rows, some of them empty.
std::vector<int64_t> RandomOffsets(Random& random, int64_t items,
                                   int64_t rows) {
  std::vector<int64_t> offsets = {0, rows};
  for (int64_t n = 1; n < items; ++n) {
    offsets.push_back(random.Integer(0, rows));
  }
  std::sort(offsets.begin(), offsets.end());
  return offsets;
}

void SetRandomBias(Random& random, ProblemSpec& spec) {
  const auto extent = [&](int64_t full) { return random.Coin() ? full : 1; };
  Shape4& s = spec.bias_shape;
  s = {extent(spec.batch), extent(spec.query_heads), extent(spec.queries),
       extent(spec.keys)};
  spec.bias = random.Normals(s.batch * s.heads * s.rows * s.cols, 2);
  for (float& b : spec.bias) {
    if (random.Integer(0, 9) == 0) b = kMinusInfinity;
  }
}

}  // namespace

std::vector<TimeRange> RandomRanges(Random& random, const ProblemSpec& spec) {
  const int64_t apart = spec.coordinates;
  std::vector<TimeRange> ranges(random.Integer(1, 3));
  for (TimeRange& range : ranges) {
    const int64_t a = random.Integer(0, spec.keys - 1);
    const int64_t b = random.Integer(0, spec.keys - 1);
    range = {.begin_ticks = std::min(a, b), .end_ticks = std::max(a, b)};
    if (spec.kind == Kind::kTicks) {
      range.begin_ticks =
          std::min(spec.key_ticks[a * apart], spec.key_ticks[b * apart]);
      range.end_ticks =
          std::max(spec.key_ticks[a * apart], spec.key_ticks[b * apart]);
    } else if (spec.kind == Kind::kReal) {
      range.begin_time =
          std::min(spec.key_real[a * apart], spec.key_real[b * apart]);
      range.end_time =
          std::max(spec.key_real[a * apart], spec.key_real[b * apart]);
    }
  }
  return ranges;
}

void SetRandomTimes(Random& random, Kind kind, bool per_item,
                    double span_seconds, ProblemSpec& spec) {
  spec.kind = kind;
  if (kind == Kind::kPositions) return;
  const int64_t items = per_item ? spec.batch : 1;
  const int64_t epoch_ns = random.Pick(std::vector<int64_t>{
      0, 1'700'000'000 * kSecondNs, -5'000'000'000 * kSecondNs});
  // A coarse grid makes ties: a quarter of a second, or of a shorter span.
  const double quarter = std::min(1.0, span_seconds) * kSecondNs / 4;
  const int64_t grid_ns =
      random.Coin() ? std::max(int64_t{1}, static_cast<int64_t>(quarter)) : 1;
  const bool sorted = random.Coin();
  for (auto [ticks, real, rows] :
       {std::tuple(&spec.query_ticks, &spec.query_real, spec.queries),
        std::tuple(&spec.key_ticks, &spec.key_real, spec.keys)}) {
    ticks->clear();
    real->clear();
    for (int64_t item = 0; item < items; ++item) {
      std::vector<int64_t> times;
      for (int64_t r = 0; r < rows; ++r) {
        // Dense at the end, sparse far back.
        const double back = span_seconds * std::pow(random.Uniform(), 4);
        times.push_back(-static_cast<int64_t>(back * kSecondNs) / grid_ns *
                        grid_ns);
      }
      if (sorted) std::sort(times.begin(), times.end());
      for (int64_t t : times) {
        ticks->push_back(epoch_ns + t);
        real->push_back(static_cast<double>(epoch_ns) * 1e-9 + t * 1e-9);
      }
    }
  }
}

ProblemSpec RandomProblem(uint64_t seed, const RandomLimits& limits) {
  Random random(seed);
  ProblemSpec spec;
  spec.seed = seed;
  spec.batch = random.Integer(1, 3);
  spec.kv_heads = random.Integer(1, 3);
  spec.query_heads = spec.kv_heads * random.Integer(1, 3);
  spec.queries = RandomRows(random, limits.max_rows);
  spec.keys = RandomRows(random, limits.max_rows);
  while (spec.batch * spec.query_heads * spec.queries * spec.keys >
         limits.pairs) {
    if (spec.batch > 1) {
      --spec.batch;
    } else if (spec.query_heads > 1) {
      spec.query_heads = spec.kv_heads = 1;
    } else {
      spec.queries = (spec.queries + 1) / 2;
    }
  }
  spec.dim = RandomDim(random, limits.max_dim);
  spec.value_dim = random.Coin() ? spec.dim : RandomDim(random, limits.max_dim);
  const auto layout = [&] {
    return random.Coin() ? Layout::kBHLD : Layout::kBLHD;
  };
  spec.query_layout = layout();
  spec.key_layout = layout();
  spec.value_layout = layout();
  spec.dtype = random.Pick(
      std::vector<DType>{DType::kF32, DType::kF32, DType::kBF16, DType::kF16});
  spec.Fill(random);
  spec.scale = static_cast<float>(random.Pick(std::vector<double>{1, 1, 4}) /
                                  std::sqrt(spec.dim));

  const Kind kind = random.Pick(
      std::vector<Kind>{Kind::kPositions, Kind::kTicks, Kind::kReal});
  SetRandomTimes(random, kind, random.Coin(), std::exp(12 * random.Uniform()),
                 spec);
  if (kind != Kind::kPositions) {
    spec.ratio = {.tick_ns = kind == Kind::kTicks ? 1 : kSecondNs,
                  .unit_ns = random.Pick(std::vector<int64_t>{
                      kSecondNs, 60 * kSecondNs, 86400 * kSecondNs})};
  }
  SetRandomMask(random, spec);
  if (random.Integer(0, 3) == 0) SetRandomBias(random, spec);
  const int64_t encoding = random.Integer(0, 4);
  if (encoding > 0) spec.encoding.emplace();
  if (encoding == 1 || encoding == 3) {
    spec.encoding->blocks = RandomBlocks(random, static_cast<int>(spec.dim));
  }
  if (encoding >= 2) {
    AlibiTerm alibi;
    if (random.Coin()) {
      for (int64_t h = 0; h < spec.query_heads; ++h) {
        alibi.slopes.push_back(std::exp(6 * random.Uniform() - 5));
      }
    }
    alibi.two_sided = !spec.causal;
    spec.encoding->biases.emplace_back(alibi);
  }
  return spec;
}

ProblemSpec RandomMaskedProblem(uint64_t seed, const RandomLimits& limits) {
  ProblemSpec spec = RandomProblem(seed, limits);
  Random random(seed ^ 0x6d61736b);
  if (random.Integer(0, 2) == 0) {
    spec.causal_index = true;
    spec.causal = random.Coin();
  }
  if (random.Integer(0, 2) == 0) {
    spec.past_keys = random.Integer(0, random.Coin() ? 9 : spec.keys);
  }
  if (random.Integer(0, 3) == 0) {
    spec.future_keys = random.Integer(0, random.Coin() ? 9 : spec.keys);
  }
  if (random.Integer(0, 2) == 0) {
    spec.prefix = random.Integer(1, random.Coin() ? 9 : spec.keys + 3);
  }
  if (random.Integer(0, 3) == 0) spec.key_ranges = RandomRanges(random, spec);
  if (spec.batch == 1 && random.Coin()) {
    spec.query_lengths.clear();
    spec.key_lengths.clear();
    const int64_t items = random.Integer(1, 4);
    spec.query_offsets = RandomOffsets(random, items, spec.queries);
    spec.key_offsets = RandomOffsets(random, items, spec.keys);
  }
  const auto dtype = [&] {
    return random.Pick(
        std::vector<DType>{DType::kF32, DType::kBF16, DType::kF16});
  };
  spec.dtype = dtype();
  spec.key_dtype = dtype();
  spec.value_dtype = dtype();
  spec.bias_dtype = dtype();
  if (random.Coin()) spec.output_dtype = dtype();
  if (random.Coin()) spec.bias_layout = Layout::kBLHD;
  if (random.Integer(0, 3) == 0) {
    spec.softcap = static_cast<float>(std::exp(5 * random.Uniform()));
  }
  if (random.Integer(0, 3) == 0) {
    spec.sinks = random.Normals(spec.query_heads, 3);
    if (random.Coin()) spec.sinks[0] = kMinusInfinity;
  }
  if (random.Integer(0, 4) == 0) {
    const int64_t share = random.Integer(2, 20);
    for (int64_t e = 0; e < spec.batch * spec.keys * spec.value_dim; ++e) {
      spec.value_mask.push_back(random.Integer(0, share) == 0);
    }
  }
  // Keys of the future are visible under most of these.
  if (spec.encoding) {
    for (BiasTerm& bias : spec.encoding->biases) {
      std::get<AlibiTerm>(bias).two_sided = true;
    }
  }
  return spec;
}

}  // namespace attnd::testing
