#include "client/resolved/pair_product.h"

#include <cmath>

#include "absl/functional/function_ref.h"

namespace attnd::client::resolved {
namespace {

// Calls `then` with what a generator asks of the lags.
void WithLags(const PairLags& lags, absl::FunctionRef<void(const Lags&)> then) {
  const auto units = [&](const Drive& d) { return lags.UnitsAlong(d); };
  const auto angle = [&](double frequency, const Drive& d) {
    return lags.Angle(frequency, d);
  };
  const auto query = [&](const Drive& d) { return lags.QueryPosition(d); };
  const auto key = [&](const Drive& d) { return lags.KeyPosition(d); };
  then(Lags{units, angle, query, key});
}

}  // namespace

SizedRow::SizedRow(absl::Span<const double> row)
    : value(row.begin(), row.end()), size(value) {
  for (double& x : size) x = std::abs(x);
}

void SizedRow::Add(absl::Span<const double> part) {
  for (size_t c = 0; c < part.size(); ++c) {
    value[c] += part[c];
    size[c] += std::abs(part[c]);
  }
}

void PairProduct::FindFreeChannels(const Generator& generator) {
  std::vector<bool> taken(generator.dim(), false);
  for (const Generator::BlockValue& block : blocks_) {
    for (int channel : *block.channels) taken[channel] = true;
  }
  free_channels_.clear();
  for (int c = 0; c < generator.dim(); ++c) {
    if (!taken[c]) free_channels_.push_back(c);
  }
}

void PairProduct::Turn(const Generator& generator, const PairLags& lags,
                       bool absolute_lag) {
  matrix_.reset();
  free_ = 1;
  WithLags(lags, [&](const Lags& of_pair) {
    if (generator.has_basis()) {
      matrix_ = generator.At(of_pair, absolute_lag);
    } else {
      blocks_ = generator.Blocks(of_pair, absolute_lag);
    }
  });
  if (!matrix_) FindFreeChannels(generator);
}

void PairProduct::TurnHeld(const Generator& generator, const PairLags& lags,
                           double span) {
  matrix_.reset();
  free_ = span;
  WithLags(lags, [&](const Lags& of_pair) {
    if (generator.has_basis()) {
      matrix_ = generator.AveragedAt(of_pair);
      for (double& x : matrix_->entries) x *= span;
      return;
    }
    blocks_ = generator.AveragedBlocks(of_pair);
    for (Generator::BlockValue& block : blocks_) {
      for (double& x : block.value.entries) x *= span;
    }
  });
  if (!matrix_) FindFreeChannels(generator);
}

void PairProduct::TurnFurther(const Generator& generator,
                              const PairLags& lags) {
  WithLags(lags, [&](const Lags& of_pair) {
    if (matrix_) {
      matrix_ = generator.At(of_pair, false) * *matrix_;
      return;
    }
    const auto later = generator.Blocks(of_pair, false);
    for (size_t b = 0; b < blocks_.size(); ++b) {
      blocks_[b].value = later[b].value * blocks_[b].value;
    }
  });
}

Product PairProduct::Multiply(const SizedRow& q, const SizedRow& k) const {
  Product product;
  const auto add = [&](int r, double a, int c) {
    product.value += q.value[r] * a * k.value[c];
    product.size += q.size[r] * std::abs(a) * k.size[c];
  };
  if (matrix_) {
    for (int r = 0; r < matrix_->size; ++r) {
      for (int c = 0; c < matrix_->size; ++c) add(r, (*matrix_)(r, c), c);
    }
    return product;
  }
  for (const auto& [channels, value] : blocks_) {
    for (int r = 0; r < value.size; ++r) {
      for (int c = 0; c < value.size; ++c) {
        add((*channels)[r], value(r, c), (*channels)[c]);
      }
    }
  }
  for (int c : free_channels_) add(c, free_, c);
  return product;
}

}  // namespace attnd::client::resolved
