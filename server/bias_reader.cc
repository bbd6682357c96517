// ReadBias of block_reader.h.
#include "server/block_reader.h"

namespace attnd::server {
namespace {

template <typename T, typename Field>
std::vector<T> List(const Field& field) {
  return {field.begin(), field.end()};
}

AlibiTerm ReadAlibi(const v1::Alibi& in, const std::string& path,
                    Violations& violations) {
  if (!in.slopes().empty() && in.has_bias_max()) {
    violations.Add(path + ".alibi.bias_max",
                   "is of the published slopes, but slopes are given; leave "
                   "one of them out");
  }
  return {.slopes = List<double>(in.slopes()),
          .two_sided = in.two_sided(),
          .bias_max = in.has_bias_max() ? in.bias_max() : 8};
}

T5Term ReadT5(const v1::T5Buckets& in) {
  T5Term out;
  if (in.has_buckets()) out.buckets = in.buckets();
  if (in.has_max_distance()) out.max_distance = in.max_distance();
  out.bidirectional = in.bidirectional();
  out.table = List<float>(in.table());
  return out;
}

HstuTerm ReadHstu(const v1::HstuBuckets& in) {
  HstuTerm out;
  if (in.has_max_bucket()) out.max_bucket = in.max_bucket();
  if (in.has_log_step()) out.log_step = in.log_step();
  out.table = List<float>(in.table());
  return out;
}

FireTerm ReadFire(const v1::Fire& in) {
  FireTerm out;
  if (in.has_c()) out.c = in.c();
  if (in.has_threshold()) out.threshold = in.threshold();
  out.hidden = in.hidden();
  out.w1 = List<float>(in.w1());
  out.b1 = List<float>(in.b1());
  out.w2 = List<float>(in.w2());
  out.b2 = List<float>(in.b2());
  return out;
}

SandwichTerm ReadSandwich(const v1::Sandwich& in) {
  SandwichTerm out;
  if (in.has_dim()) out.dim = in.dim();
  if (in.has_base()) out.base = in.base();
  return out;
}

std::optional<BiasTerm> ReadKerple(const v1::Kerple& in,
                                   const std::string& path,
                                   Violations& violations) {
  if (in.form() != v1::Kerple::FORM_LOG &&
      in.form() != v1::Kerple::FORM_POWER) {
    violations.Add(path + ".kerple.form", "required: log or power");
    return std::nullopt;
  }
  return KerpleTerm{.power = in.form() == v1::Kerple::FORM_POWER,
                    .r1 = List<double>(in.r1()),
                    .r2 = List<double>(in.r2())};
}

}  // namespace

std::optional<BiasTerm> ReadBias(const v1::Bias& in, const std::string& path,
                                 Violations& violations) {
  switch (in.kind_case()) {
    case v1::Bias::kAlibi:
      return ReadAlibi(in.alibi(), path, violations);
    case v1::Bias::kCumulativeGate:
      return CumulativeGateTerm{.per_unit = in.cumulative_gate().per_unit()};
    case v1::Bias::kT5Buckets:
      return ReadT5(in.t5_buckets());
    case v1::Bias::kHstuBuckets:
      return ReadHstu(in.hstu_buckets());
    case v1::Bias::kKerple:
      return ReadKerple(in.kerple(), path, violations);
    case v1::Bias::kFire:
      return ReadFire(in.fire());
    case v1::Bias::kSandwich:
      return ReadSandwich(in.sandwich());
    case v1::Bias::kGrapeAdditive:
      return GrapeAdditiveTerm{
          .slopes = List<double>(in.grape_additive().slopes()),
          .query_direction = List<float>(in.grape_additive().query_direction()),
          .key_direction = List<float>(in.grape_additive().key_direction())};
    case v1::Bias::kPathIntegral:
      return PathIntegralTerm{.quadrature =
                                  in.path_integral().has_quadrature()
                                      ? in.path_integral().quadrature()
                                      : true};
    case v1::Bias::kLagTable:
      return LagTableTerm{.lags = List<double>(in.lag_table().lags()),
                          .values = List<float>(in.lag_table().values()),
                          .absolute_lag = in.lag_table().absolute_lag()};
    case v1::Bias::KIND_NOT_SET:
      break;
  }
  AddNoKind(in, "bias", path, violations);
  return std::nullopt;
}

}  // namespace attnd::server
