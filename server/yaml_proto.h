// YAML into a proto message, strictly: by walking the message's descriptor over
// the YAML tree, so that every complaint has a field path and a line.
#ifndef ATTND_SERVER_YAML_PROTO_H_
#define ATTND_SERVER_YAML_PROTO_H_

#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "server/status.h"
#include "server/violations.h"

namespace attnd::server {

// Where in the document a field stands.
class SourceMap {
 public:
  void Set(const std::string& path, int line) { lines_[path] = line; }
  // Line (from 1) of a path like "encodings[1].blocks[0].rotary", or of the
  // nearest enclosing part of it that the document has; 0 if none.
  int Line(absl::string_view path) const;
  // Whether the document has exactly this path.
  bool Has(absl::string_view path) const { return lines_.contains(path); }

 private:
  std::map<std::string, int, std::less<>> lines_;
};

// Fills `message` from the text. Refused, all at once: keys that the message
// does not have (with the nearest one that it has), duplicate keys, values of
// the wrong type, numbers that are not finite or do not fit, two members of a
// oneof, several documents. Enum values are full names or, short, what follows
// the enum's prefix in any case ("half_split"). Keys without a value: refused
// in entries of lists, absent elsewhere and in what models write, of which a
// whole block of null is one with its defaults.
void ParseYaml(const std::string& text, google::protobuf::Message& message,
               SourceMap& sources, Violations& violations);

}  // namespace attnd::server

#endif  // ATTND_SERVER_YAML_PROTO_H_
