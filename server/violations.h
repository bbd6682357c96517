// All that is wrong with one request or configuration, told at once.
#ifndef ATTND_SERVER_VIOLATIONS_H_
#define ATTND_SERVER_VIOLATIONS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/status.h"

namespace attnd::server {

// Violated fields in the order found.
//
// Reports on the same field are counted and the first description is kept, so
// a mask of 100000 wrong entries is one violation with a count. Many fields
// cost no more each than few.
class Violations {
 public:
  struct Violation {
    std::string field;  // "query.shape", "encodings[1].blocks[0].rotary.base"
    std::string description;
    int64_t count = 1;
  };

  void Add(absl::string_view field, absl::string_view description,
           int64_t count = 1);
  // Adds another list's violation as it is.
  void Append(const Violation& violation);
  // Adds a message of the form "path: text", as the kernels write them, with
  // `prefix` before the path; a message without a path goes to `field`. Nothing
  // for OK.
  void AddStatus(const absl::Status& status, absl::string_view prefix,
                 absl::string_view field);

  bool empty() const { return list_.empty(); }
  bool Has(absl::string_view field) const { return places_.contains(field); }
  // Whether an entry of a list ("blocks[0].values[7]") is among those that
  // start with `prefix`.
  bool HasEntry(absl::string_view prefix) const;
  absl::Span<const Violation> list() const { return list_; }

  // OK when empty, else a refusal with BadRequest{all fields}, as far as they
  // fit; INVALID_ARGUMENT.
  absl::Status ToStatus(Reason reason = Reason::kInvalid) const;

 private:
  std::vector<Violation> list_;
  std::map<std::string, size_t, std::less<>> places_;  // of fields in the list
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_VIOLATIONS_H_
