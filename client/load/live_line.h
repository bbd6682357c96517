// One line on a terminal, written over itself, that says what goes on.
#ifndef ATTND_CLIENT_LOAD_LIVE_LINE_H_
#define ATTND_CLIENT_LOAD_LIVE_LINE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "client/load/runner.h"

namespace attnd::client {

struct LiveField {
  std::string text;
  // The largest is left out first where there is no room.
  int rank = 0;
};

// The fields that fit into less than `columns`: a line that reached the edge
// could wrap, and one that has wrapped cannot be written over.
std::string FitLine(std::vector<LiveField> fields, int columns);

class LiveLine {
 public:
  // `columns` is asked before each writing: terminals change their size.
  LiveLine(std::ostream& out, std::function<int()> columns);
  // Leaves the line empty.
  ~LiveLine();
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;

  void Write(std::vector<LiveField> fields);

 private:
  std::ostream& out_;
  std::function<int()> columns_;
};

// Rate, calls in flight, percentiles, errors and time left of a run.
class RunLine final : public Observer {
 public:
  // Seconds include the warm-up, calls do not; 0 = unknown. `title` is empty or
  // tells runs apart.
  RunLine(LiveLine& line, std::string title, double warm_up_seconds,
          double seconds, int64_t calls);

  void Observe(const Conductor& conductor, int64_t now_ns) override;
  void Show() override;

 private:
  void AddRate(const LoadResult& result, double now);
  void AddLatency(const Timeline& timeline);
  void AddErrors(const LoadResult& result);
  void AddTimeLeft(const LoadResult& result, double now);

  LiveLine& line_;
  const std::string title_;
  const double warm_up_seconds_;
  const double seconds_;
  const int64_t calls_;
  std::vector<LiveField> fields_;
  // Moments of the last looks, and answers until then.
  std::deque<std::pair<double, int64_t>> looks_;
};

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_LIVE_LINE_H_
