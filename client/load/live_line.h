// One line on a terminal that says how a run goes.
#ifndef ATTND_CLIENT_LOAD_LIVE_LINE_H_
#define ATTND_CLIENT_LOAD_LIVE_LINE_H_

#include <ostream>
#include <string>

#include "client/load/runner.h"

namespace attnd::client {

// Written over itself; erased by the destructor, so that a report can follow.
class LiveLine final : public Observer {
 public:
  //   seconds   length of the run with its warm-up; 0 = unknown
  LiveLine(std::ostream& out, double warm_up_seconds, double seconds);
  ~LiveLine() override;

  void Observe(const Conductor& conductor, int64_t now_ns) override;
  void Show() override;

 private:
  std::ostream& out_;
  double warm_up_seconds_;
  double seconds_;
  std::string text_;
  int64_t ok_before_ = 0;
  double seen_before_ = 0;
};

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_LIVE_LINE_H_
