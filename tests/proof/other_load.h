// Whether others used the machine while something was measured.
#ifndef ATTND_TESTS_PROOF_OTHER_LOAD_H_
#define ATTND_TESTS_PROOF_OTHER_LOAD_H_

namespace attnd::testing {

// Counts from its construction.
class OtherLoad {
 public:
  OtherLoad();

  // What the processors did for others than this process and its children,
  // as a share of all their time.
  double used() const;
  // What a hypervisor took from them.
  double stolen() const;

 private:
  // Seconds since the machine, or this process, started.
  struct Times {
    double wall = 0;  // summed over the processors
    double busy = 0;
    double stolen = 0;
    double own = 0;
  };
  static Times Now();

  const Times start_;
};

}  // namespace attnd::testing

#endif  // ATTND_TESTS_PROOF_OTHER_LOAD_H_
