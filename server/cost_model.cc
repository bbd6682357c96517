#include "server/cost_model.h"

#include <numeric>

#include "kernels/linear.h"

namespace attnd::server {
namespace {

// Held keys go one by one through the encoding, in double: measured at D 16 to
// 128 as multiples of an element of a plain event.
double ElementCost(const LinearProblem& problem) {
  if (problem.attention.encoder == nullptr) return 1;
  switch (problem.options.input_rule) {
    case LinearOptions::InputRule::kZeroOrderHold:
      return 40;
    case LinearOptions::InputRule::kTrapezoid:
      return 20;
    default:
      return 1;
  }
}

double EncodedElements(const Plan& plan, int64_t item) {
  const Encoder* encoder = plan.encoder(item);
  if (encoder == nullptr ||
      (encoder->one_generator() && encoder->head(0).identity())) {
    return 0;
  }
  const Shape4 &q = plan.problem().query.shape(),
               &k = plan.problem().key.shape();
  const bool shared = plan.shares_phases(item);
  const int64_t rows = plan.item(item).query_rows * (shared ? 1 : q.heads) +
                       plan.item(item).key_rows * (shared ? 1 : k.heads);
  return static_cast<double>(rows * q.cols);
}

bool HasBias(const Plan& plan) {
  const AttentionProblem& problem = plan.problem();
  return problem.bias.shape().cols > 0 ||
         (plan.items() > 0 && plan.encoder(0) != nullptr &&
          plan.encoder(0)->has_bias());
}

}  // namespace

Work WorkOf(const Plan& plan, const MessageBytes& bytes) {
  const Shape4 &q = plan.problem().query.shape(),
               &k = plan.problem().key.shape();
  const double flops = static_cast<double>(plan.counts().flops);
  Work work = {.requests = 1,
               .units = static_cast<double>(plan.units().size()),
               // Native bf16 products run at about twice the rate.
               .flops = (plan.bf16() ? flops / 2 : flops) + plan.turn_flops(),
               .pairs = static_cast<double>(plan.counts().pairs),
               .blocks = static_cast<double>(plan.counts().blocks),
               .bytes = static_cast<double>(bytes.request),
               .reply_bytes = static_cast<double>(bytes.reply)};
  for (int64_t n = 0; n < plan.items(); ++n) {
    work.rows += static_cast<double>(plan.item(n).query_rows * q.heads +
                                     plan.item(n).key_rows * k.heads);
    work.encoded += EncodedElements(plan, n);
  }
  if (HasBias(plan)) work.biased = work.pairs;
  return work;
}

Work WorkOf(const LinearPlan& plan, const MessageBytes& bytes) {
  const AttentionProblem& problem = plan.problem().attention;
  const Shape4& q = problem.query.shape();
  const Shape4& k = problem.key.shape();
  const double passes = plan.problem().options.bidirectional ? 2 : 1;
  const double elements =
      passes * static_cast<double>(q.batch) *
      static_cast<double>(q.heads * q.rows + k.heads * k.rows) *
      static_cast<double>(kLinearRowElements + q.cols +
                          problem.value.shape().cols);
  return {.requests = 1,
          .units = static_cast<double>(plan.heads() * plan.segments()),
          .flops = static_cast<double>(plan.flops()),
          .bytes = static_cast<double>(bytes.request),
          .reply_bytes = static_cast<double>(bytes.reply),
          .elements = ElementCost(plan.problem()) * elements};
}

double MergedElements(const LinearPlan& plan, size_t states) {
  // Entered into the frame, advanced, left and added, all in double: 10 ns each
  // where an element of a row takes 1; a change of basis goes over all channels
  // both ways.
  constexpr double kPass = 10, kBasisPass = 1;
  const AttentionProblem& problem = plan.problem().attention;
  const LinearStateShape& shape = plan.state_shape();
  const double sums = static_cast<double>(shape.heads()) *
                      static_cast<double>(shape.dim * plan.width());
  const bool basis = problem.encoder != nullptr &&
                     !problem.encoder->head(0).query_basis().empty();
  return static_cast<double>(states) * sums *
         (kPass + (basis ? kBasisPass * static_cast<double>(shape.dim) : 0));
}

CostModel::Parts CostModel::PartsOf(const Work& work) const {
  Parts parts;
  for (size_t i = 0; i < kTerms.size(); ++i) {
    parts[i] = work.*kTerms[i].amount * rates_.*kTerms[i].rate;
  }
  return parts;
}

double CostModel::Predict(const Work& work) const {
  const Parts parts = PartsOf(work);
  return std::accumulate(parts.begin(), parts.end(), 0.0);
}

double CostModel::flops_per_second() const {
  // 4 D flops a pair at D = Dv = 64, tiles of 128 rows.
  constexpr double kFlops = 256;
  return kFlops / (kFlops * rates_.seconds_per_flop + rates_.seconds_per_pair +
                   rates_.seconds_per_block / kPairsPerBlock);
}

}  // namespace attnd::server
