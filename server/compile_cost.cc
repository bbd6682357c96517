#include "server/compile_cost.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace attnd::server {
namespace {

// Schur form, block diagonalisation and checks of one dense block, measured
// with blocks of 32 to 128 on one core of a Zen 4 (compile_cost_test.cc).
constexpr double kSecondsPerDenseCube = 1.2e-7;
// Validation and flattening of everything else.
constexpr double kSecondsPerEncoder = 1e-4;

double DenseBlocks(
    const google::protobuf::RepeatedPtrField<v1::Block>& blocks) {
  double seconds = 0;
  for (const v1::Block& block : blocks) {
    // What is out of range is refused before it is compiled.
    const double dim = std::clamp(block.dense().dim(), 0, 128);
    seconds += kSecondsPerDenseCube * std::pow(dim, 3);
  }
  return seconds;
}

double OneEncoder(const v1::Encoding& encoding) {
  double seconds = kSecondsPerEncoder + DenseBlocks(encoding.blocks());
  // Its condition and inverse.
  const double basis = std::clamp(encoding.basis().dim(), 0, 1024);
  seconds += kSecondsPerDenseCube * std::pow(basis, 3);
  for (const v1::Generator& generator : encoding.per_head()) {
    seconds += kSecondsPerEncoder + DenseBlocks(generator.blocks());
  }
  return seconds;
}

}  // namespace

double PredictCompiling(const v1::AttendRequest& request,
                        const EncodingCatalog& encodings) {
  double seconds = 0;
  if (request.has_inline_encoding()) {
    seconds = OneEncoder(request.inline_encoding());
  } else if (const NamedEncoding* known = encodings.Find(request.encoding())) {
    seconds = OneEncoder(known->definition);
  }
  // Some scalings of rotary blocks depend on an item's own length.
  const int items = std::max(request.mask().key_lengths_size(),
                             request.mask().key_validity().empty() ? 0 : 1);
  return seconds + items * kSecondsPerEncoder;
}

double PredictListing(const v1::ListEncodingsRequest& request,
                      const EncodingCatalog& encodings) {
  double seconds = kSecondsPerEncoder;
  const std::set<absl::string_view> names(request.names().begin(),
                                          request.names().end());
  for (const NamedEncoding& encoding : encodings.encodings()) {
    if (!names.empty() && names.count(encoding.name) == 0) continue;
    seconds += OneEncoder(encoding.definition);
  }
  return seconds;
}

}  // namespace attnd::server
