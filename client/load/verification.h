// Answers checked against an independent computation in double precision, from
// the definitions that the server lists (client/resolved/attention.h).
#ifndef ATTND_CLIENT_LOAD_VERIFICATION_H_
#define ATTND_CLIENT_LOAD_VERIFICATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attnd/v1/attention.pb.h"
#include "client/client.h"
#include "client/resolved/attention.h"

namespace attnd::client {

struct Verification {
  // Answers that were compared, and those of them that were wrong.
  int64_t checked = 0;
  int64_t wrong = 0;
  // Answers for which there is nothing to compare with: the encoding could not
  // be asked for, or the reference does not know what was sent.
  int64_t unverifiable = 0;
  // Chosen, but not kept for want of memory, or cut short by an interrupt.
  int64_t not_kept = 0;
  // Largest error found, as a share of what the accuracy contract allows.
  double largest_error_share = 0;
  // What was wrong with the first few, with the files of their requests.
  std::vector<std::string> mismatches = {};
  // The same of unverifiable ones, each request once.
  std::vector<std::string> unverified = {};

  // Nothing wrong, nothing unknown.
  bool Passed() const { return wrong == 0 && unverifiable == 0; }
};

// Pairs of query and key times planes that the reference of one request may
// cost, about a microsecond each: of larger requests some rows are checked, the
// first, the last and random ones.
inline constexpr double kReferencePairs = 1e6;
// The same where key_mass is asked for, which sums over all rows. Beyond it the
// rows that are checked bound each sum from below, and a weight of 1 from every
// other row bounds it from above.
inline constexpr double kReferencePairsOfSums = 2e7;

// What a request should be answered, for the rows that are checked. Asks the
// server for the definition of the encoding. Unimplemented for what the
// reference does not know.
absl::StatusOr<resolved::Answer> Reference(const v1::AttendRequest& request,
                                           const Client& client);

// The largest error of the outputs that were asked for, as a share of the
// contract's bound; of key_mass the bound is the sum of those of the weights
// that it adds up. InvalidArgument when an output is missing or has another
// shape. Not for top_k.
absl::StatusOr<double> ErrorShare(const v1::AttendRequest& request,
                                  const v1::AttendResponse& answer,
                                  const resolved::Answer& reference);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_VERIFICATION_H_
