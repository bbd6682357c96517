// A(D) of one head, computed from its resolved definition alone: the general
// matrix exponential of every block. Shares nothing with the server.
#ifndef ATTND_CLIENT_RESOLVED_GENERATOR_H_
#define ATTND_CLIENT_RESOLVED_GENERATOR_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "attnd/v1/encoding.pb.h"
#include "client/resolved/double_double.h"
#include "client/resolved/matrix_functions.h"

namespace attnd::client::resolved {

// What a block advances along: a coordinate of the time axis, or a channel of
// the request's learned clock.
struct Drive {
  bool clock = false;
  int index = 0;
};

// How far a query is from a key.
struct Lags {
  // Units along a drive.
  absl::FunctionRef<double(const Drive&)> units;
  // frequency [rad per unit] times those units, whole turns left out.
  absl::FunctionRef<double(double frequency, const Drive&)> angle;
  // Where the query and the key stand along a drive, in units: for parts that
  // are no functions of lags.
  absl::FunctionRef<double(const Drive&)> query_position, key_position;
};

// Immutable.
class Generator {
 public:
  // INVALID_ARGUMENT when the definition is not one for this head dimension.
  static absl::StatusOr<Generator> Make(const v1::ResolvedGenerator& resolved,
                                        int head_dim);

  // exp of one block, over its channels in the order of the matrix.
  struct BlockValue {
    const std::vector<int>* channels;
    Matrix value;
  };

  int dim() const { return dim_; }
  // False: scores depend on positions.
  bool relative() const { return relative_; }
  // Blocks act in the basis of the columns of P; otherwise At is the direct sum
  // of Blocks and of the identity.
  bool has_basis() const { return basis_.size > 0; }

  // absolute_lag: the two-sided rule, decays and couplings take |D|.
  std::vector<BlockValue> Blocks(const Lags& lags, bool absolute_lag) const;
  // phi1(DX) in place of exp(DX), for lags >= 0.
  std::vector<BlockValue> AveragedBlocks(const Lags& lags) const;
  Matrix AveragedAt(const Lags& lags) const;
  // Calls `then` with the first rate that is not 0 and what it decays along, if
  // there is one.
  void FirstRate(absl::FunctionRef<void(double rate, const Drive&)> then) const;
  // A(D), head_dim x head_dim.
  Matrix At(const Lags& lags, bool absolute_lag) const;
  // The same with every drive advanced by `lag` units, the key standing at 0.
  Matrix At(double lag, bool absolute_lag = false) const;

 private:
  struct Block {
    std::vector<int> channels;
    Drive drive, decay_drive;
    double frequency = 0, rate = 0, coupling = 0, amplitude = 1;
    int order = 1;
    bool turns = false;  // channels are pairs
    std::vector<std::pair<double, Drive>> further;
    Matrix matrix{0}, rotation{0};  // dense
    std::vector<Matrix> free;       // liere, per axis
  };

  static absl::StatusOr<Block> ReadBlock(const v1::ResolvedBlock& in,
                                         int head_dim);
  double Angle(const Block& block, const Lags& lags, bool averaged) const;
  Matrix Argument(const Block& block, const Lags& lags, bool absolute_lag,
                  bool averaged) const;
  Matrix Value(const Block& block, const Lags& lags, bool absolute_lag,
               bool averaged) const;
  std::vector<BlockValue> Values(const Lags& lags, bool absolute_lag,
                                 bool averaged) const;
  Matrix Sum(const std::vector<BlockValue>& blocks) const;

  int dim_ = 0;
  bool averaged_ = false, relative_ = true;
  std::vector<Block> blocks_;
  Matrix basis_{0}, inverse_{0};
};

// frequency * lag, whole turns left out, to 1e-15 rad however many these are
// (to 2^-52 of the lag where the product is beyond doubles).
double AngleOf(double frequency, DoubleDouble lag);

}  // namespace attnd::client::resolved

#endif  // ATTND_CLIENT_RESOLVED_GENERATOR_H_
