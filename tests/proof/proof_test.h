// What every scenario has: attnd as a child process, and a table of figures
// beside their bounds.
#ifndef ATTND_TESTS_PROOF_PROOF_TEST_H_
#define ATTND_TESTS_PROOF_PROOF_TEST_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/attnd_process.h"
#include "tests/integration/test_client.h"
#include "tests/proof/other_load.h"

namespace attnd::testing {

// ATTND_PROOF_SECONDS sets how long a scenario loads the server (`make proof`:
// 30). Without it a scenario is short and, as others may use the machine
// meanwhile, its figures have wide bounds; counts, statuses and gauges must
// hold in any case. With it, too, a machine that turns out to be busy with
// other things is said to be so, and only the wide bounds are held.
class ProofTest : public ::testing::Test {
 protected:
  void TearDown() override;

  static bool full();
  // Of load, `full()` or short.
  static double seconds();
  static double seconds(double full_seconds, double short_seconds);

  // `yaml` holds further keys of the configuration.
  void Start(const std::string& yaml = "",
             const std::vector<std::string>& environment = {});
  std::string address() const { return address_; }
  // Of /metrics; -1 if there is no such sample.
  double Metric(const std::string& series) const {
    return MetricOf(admin_, series);
  }
  static double MetricOf(const std::string& admin, const std::string& series);
  bool EventuallyMetric(const std::string& series, double value) const;
  static bool Eventually(const std::function<bool()>& condition);

  // A deadline in seconds: as stated, or more on a machine that is busy with
  // other things, where `calls` at the rate of `capacity` take longer.
  static double Deadline(double exact, double calls, double capacity);

  // A figure that is shown.
  void Show(const std::string& what, double value);
  // One that has a bound, and a wide bound for a machine that is not ours
  // alone.
  void AtLeast(const std::string& what, double value, double bound,
               double wide);
  void AtMost(const std::string& what, double value, double bound, double wide);

  std::unique_ptr<Attnd> attnd_;
  std::unique_ptr<TestClient> client_;

 private:
  struct Figure {
    std::string what;
    double value;
    std::string bound;  // as shown
    bool holds, holds_widely;
  };
  void PrintFigures(bool busy) const;

  std::string file_, address_, admin_;
  std::vector<Figure> figures_;
  const OtherLoad others_;
};

}  // namespace attnd::testing

#endif  // ATTND_TESTS_PROOF_PROOF_TEST_H_
