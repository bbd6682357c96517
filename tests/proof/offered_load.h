// Load offered to a server at a rate, whether it keeps up or not, and what came
// of it.
#ifndef ATTND_TESTS_PROOF_OFFERED_LOAD_H_
#define ATTND_TESTS_PROOF_OFFERED_LOAD_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "attnd/v1/attention.pb.h"
#include "tests/integration/test_client.h"

namespace attnd::testing {

struct Outcomes {
  std::map<int, int> codes;      // how many calls ended with which
  std::vector<double> answers;   // seconds of those that were OK, sorted
  std::vector<double> refusals;  // of those refused with a reason, sorted
  double seconds = 0;            // from the first call to the last end

  int ok() const { return codes.count(kOk) > 0 ? codes.at(kOk) : 0; }
  double goodput() const { return ok() / seconds; }
  int calls() const;
  // Neither answered nor refused: their deadline came.
  int late() const {
    return calls() - ok() - static_cast<int>(refusals.size());
  }
};

// The smallest value that is not below a share `q` of sorted values; 0 if there
// are none.
double Quantile(const std::vector<double>& sorted, double q);

struct OfferedLoad {
  v1::AttendRequest request;
  double per_second = 1;
  bool poisson = true;  // else evenly spaced
  double seconds = 1;
  double deadline_seconds = kNoDeadline;
  Metadata metadata = {};
  uint64_t seed = 1;
};

// Calls at times that do not depend on the answers; a late call is measured
// from when it was due. Returns when all have ended.
Outcomes Offer(const std::string& address, const OfferedLoad& load);

// `callers` calls at a time, each after the end of the last.
Outcomes ClosedLoop(const std::string& address,
                    const v1::AttendRequest& request, int callers,
                    double seconds, const Metadata& metadata = {});

}  // namespace attnd::testing

#endif  // ATTND_TESTS_PROOF_OFFERED_LOAD_H_
