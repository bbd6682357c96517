#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/kernels/random_parts.h"

namespace attnd::testing {

BiasTerm RandomParts::Bias() {
  const auto heads = static_cast<size_t>(spec_.query_heads);
  const auto values = [&](size_t count) {
    return random_.Normals(static_cast<int64_t>(count), 2);
  };
  switch (random_.Integer(0, 9)) {
    case 0:
      // Two terms of the same gates are refused.
      if (gates_) break;
      one_sided_ = gates_ = true;
      if (random_.Coin()) return PathIntegralTerm{.quadrature = random_.Coin()};
      return CumulativeGateTerm{.per_unit = random_.Coin()};
    case 1:
      return T5Term{.buckets = 32,
                    .max_distance = std::max(20.0, span_),
                    .bidirectional = random_.Coin(),
                    .table = values(heads * 32)};
    case 2:
      return HstuTerm{.max_bucket = 40,
                      .log_step = LogUniform(random_, 0.1, 2),
                      .table = values(heads * 41)};
    case 3:
      return KerpleTerm{.power = false,
                        .r1 = PerHead(1e-2, 10),
                        .r2 = PerHead(1e-6 / span_, 1e6 / span_)};
    case 4:
      return KerpleTerm{.power = true,
                        .r1 = {LogUniform(random_, 1e-3, 10)},
                        .r2 = PerHead(0.05, 2)};
    case 5: {
      const auto hidden = static_cast<int>(random_.Integer(1, 5));
      return FireTerm{.c = LogUniform(random_, 1e-3, 1e3) / span_,
                      .threshold = LogUniform(random_, 1e-3, 1e3) * span_,
                      .hidden = hidden,
                      .w1 = values(hidden),
                      .b1 = values(hidden),
                      .w2 = values(heads * hidden),
                      .b2 = values(heads)};
    }
    case 6:
      return SandwichTerm{.dim = 2 * static_cast<int>(random_.Integer(1, 40)),
                          .base = LogUniform(random_, 10, 1e6)};
    case 7: {
      one_sided_ = true;
      GrapeAdditiveTerm term{.slopes = PerHead(1e-3 / span_, 10 / span_),
                             .query_direction = {},
                             .key_direction = {}};
      const int64_t sides = random_.Integer(1, 3);
      if ((sides & 1) != 0) {
        term.query_direction = random_.Normals(spec_.dim, 0.3F);
      }
      if ((sides & 2) != 0) {
        term.key_direction = random_.Normals(spec_.dim, 0.3F);
      }
      return term;
    }
    case 8: {
      LagTableTerm term{
          .lags = {}, .values = {}, .absolute_lag = random_.Coin()};
      const int64_t knots = random_.Integer(1, 20);
      double lag = random_.Coin() ? -span_ * random_.Uniform() : 0;
      for (int64_t k = 0; k < knots; ++k) {
        term.lags.push_back(lag);
        lag += span_ * LogUniform(random_, 1e-6, 1);
      }
      if (term.absolute_lag && term.lags[0] < 0) term.absolute_lag = false;
      term.values =
          values(static_cast<size_t>(knots) * (random_.Coin() ? heads : 1));
      return term;
    }
    default:
      break;
  }
  return AlibiTerm{.slopes = PerHead(1e-3 / span_, 1e3 / span_),
                   .two_sided = !spec_.causal || spec_.prefix > 0};
}

BiasTerm RandomParts::FallingBias() {
  if (random_.Coin()) {
    return KerpleTerm{
        .power = true, .r1 = PerHead(10, 1e4), .r2 = PerHead(0.05, 2)};
  }
  return AlibiTerm{.slopes = PerHead(10 / span_, 1e5 / span_),
                   .two_sided = !spec_.causal || spec_.prefix > 0};
}

Time2VecPart RandomParts::Time2Vec(int width) {
  Time2VecPart part;
  for (int c = 0; c < width; ++c) {
    // The first is the linear one, of about 1 at the farthest: an origin is a
    // whole number of ticks, which real times may all be less than.
    part.frequencies.push_back(c > 0 ? Frequency(false)
                               : spec_.kind == TimeAxis::Kind::kReal
                                   ? 1 / LargestPlace({})
                                   : 1 / span_);
    part.phases.push_back(6 * random_.Uniform());
  }
  return part;
}

AbsolutePart RandomParts::Absolute() {
  AbsolutePart part;
  const auto dim = static_cast<int>(spec_.dim);
  part.on_key = !Rarely(random_, 4);
  part.on_query = !part.on_key || !Rarely(random_, 4);
  if (spec_.kind == TimeAxis::Kind::kTicks) {
    part.origin_ticks =
        spec_.key_ticks[random_.Integer(0, spec_.keys - 1) * spec_.coordinates];
  } else if (spec_.kind == TimeAxis::Kind::kReal) {
    part.origin_ticks = static_cast<int64_t>(
        spec_.key_real[random_.Integer(0, spec_.keys - 1) * spec_.coordinates]);
  }
  switch (random_.Integer(dim % 2, 4)) {
    case 0:
      part.kind = SinusoidalPart{
          .base = LogUniform(random_, 10, 1e6),
          .order = random_.Pick(std::vector<SinusoidalPart::Order>{
              SinusoidalPart::Order::kInterleaved,
              SinusoidalPart::Order::kConcatenated,
              SinusoidalPart::Order::kEndpoints}),
          .amplitude = LogUniform(random_, 0.1, 2)};
      break;
    case 1: {
      const auto rows = static_cast<int>(random_.Integer(1, 50));
      part.kind = LearnedTablePart{
          .rows = rows,
          .dim = dim,
          .table = random_.Normals(rows * spec_.dim),
          .step = std::max(1.0, span_ * LogUniform(random_, 1e-3, 1)),
          .boundary = random_.Coin() ? LearnedTablePart::Boundary::kClamp
                                     : LearnedTablePart::Boundary::kWrap,
          .interpolation =
              random_.Pick(std::vector<LearnedTablePart::Interpolation>{
                  LearnedTablePart::Interpolation::kNearest,
                  LearnedTablePart::Interpolation::kLinear,
                  LearnedTablePart::Interpolation::kCubic})};
      break;
    }
    case 2:
      part.kind = Time2Vec(dim);
      break;
    case 3: {
      const auto width = static_cast<int>(random_.Integer(1, 8));
      part.kind =
          MultiTimePart{.embedding = {Time2Vec(width)},
                        .query_projection = random_.Normals(spec_.dim * width),
                        .key_projection = random_.Normals(spec_.dim * width)};
      break;
    }
    default: {
      HawkesPart hawkes;
      hawkes.index_form = random_.Coin();
      for (int c = 0; hawkes.index_form && c < dim; ++c) {
        hawkes.index_frequencies.push_back(random_.Normal());
        hawkes.time_frequencies.push_back(Frequency(false));
      }
      part.kind = hawkes;
      break;
    }
  }
  return part;
}

}  // namespace attnd::testing
