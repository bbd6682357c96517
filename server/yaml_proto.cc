#include "server/yaml_proto.h"

#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "attnd/v1/encoding.pb.h"
#include "google/protobuf/descriptor.h"
#include "server/text.h"

namespace attnd::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;
using google::protobuf::Reflection;

absl::string_view KindText(const YAML::Node& node) {
  if (node.IsMap()) return "a mapping";
  if (node.IsSequence()) return "a list";
  return "a single value";
}

// The values of an enum as a configuration writes them: without the prefix that
// all of them share ("PAIR_LAYOUT_"), lower case, UNSPECIFIED left out.
std::vector<std::string> ShortNames(const EnumDescriptor& type) {
  const std::string& zero = type.value(0)->name();
  const size_t prefix = zero.size() - absl::string_view("UNSPECIFIED").size();
  std::vector<std::string> names;
  for (int i = 1; i < type.value_count(); ++i) {
    names.push_back(absl::AsciiStrToLower(
        absl::string_view(type.value(i)->name()).substr(prefix)));
  }
  return names;
}

const EnumValueDescriptor* FindEnumValue(const EnumDescriptor& type,
                                         const std::string& text) {
  if (const auto* value = type.FindValueByName(text)) return value;
  const std::vector<std::string> names = ShortNames(type);
  for (size_t i = 0; i < names.size(); ++i) {
    if (absl::EqualsIgnoreCase(names[i], text)) {
      return type.value(static_cast<int>(i) + 1);
    }
  }
  return nullptr;
}

// A walk over one document.
class Reader {
 public:
  Reader(SourceMap& sources, Violations& violations)
      : sources_(sources), violations_(violations) {}

  void ReadMessage(const YAML::Node& node, const std::string& path,
                   Message& message);

 private:
  void ReadField(const YAML::Node& node, const std::string& path,
                 const FieldDescriptor& field, Message& message);
  void ReadList(const YAML::Node& node, const std::string& path,
                const FieldDescriptor& field, Message& message);
  // Sets a scalar field, or adds to a repeated one.
  void ReadScalar(const YAML::Node& node, const std::string& path,
                  const FieldDescriptor& field, Message& message);
  void ReadEnum(const std::string& text, const std::string& path,
                const FieldDescriptor& field, Message& message);
  void ReportUnknownKey(const std::string& key, const YAML::Node& value,
                        const std::string& path, const Descriptor& type);
  void ReadModelsNull(const FieldDescriptor& field, Message& message);
  void ReportNoValue(const std::string& path, const FieldDescriptor& field);

  SourceMap& sources_;
  Violations& violations_;
};

// Whether a value has the keys that its own key stands among, as models write
// one block per kind of layer.
bool IsOneLevelTooDeep(const YAML::Node& value, const Descriptor& type) {
  if (!value.IsMap() || value.size() == 0) return false;
  return std::all_of(value.begin(), value.end(), [&](const auto& entry) {
    return entry.first.IsScalar() &&
           type.FindFieldByName(entry.first.Scalar()) != nullptr;
  });
}

void Reader::ReportUnknownKey(const std::string& key, const YAML::Node& value,
                              const std::string& path, const Descriptor& type) {
  if (IsOneLevelTooDeep(value, type)) {
    violations_.Add(path,
                    "unknown key; what it holds belongs directly here: write "
                    "one entry (an encoding for each kind of layer) for each "
                    "such key");
    return;
  }
  std::vector<std::string> known;
  for (int i = 0; i < type.field_count(); ++i) {
    known.push_back(type.field(i)->name());
  }
  const absl::string_view nearest = Nearest(key, known);
  violations_.Add(
      path, nearest.empty()
                ? absl::StrCat("unknown key; known here: ",
                               absl::StrJoin(known, ", "))
                : absl::StrCat("unknown key; did you mean ", nearest, "?"));
}

void Reader::ReadMessage(const YAML::Node& node, const std::string& path,
                         Message& message) {
  if (node.IsNull()) return;
  const Descriptor& type = *message.GetDescriptor();
  if (!node.IsMap()) {
    violations_.Add(
        path, absl::StrCat("expected a mapping with keys of ", type.name(),
                           ", found ", KindText(node)));
    return;
  }
  std::set<std::string> seen;
  std::vector<const FieldDescriptor*> nulls;
  for (const auto& entry : node) {
    const std::string key =
        entry.first.IsScalar() ? entry.first.Scalar() : "(not a name)";
    const std::string key_path = path.empty() ? key : path + "." + key;
    sources_.Set(key_path, entry.first.Mark().line + 1);
    const FieldDescriptor* field = type.FindFieldByName(key);
    if (key == "<<") {
      violations_.Add(key_path,
                      "merge keys are not supported; write the keys out, or "
                      "give the whole value by its *alias");
    } else if (field == nullptr) {
      ReportUnknownKey(key, entry.second, key_path, type);
    } else if (!seen.insert(key).second) {
      violations_.Add(key_path, "given twice");
    } else {
      ReadField(entry.second, key_path, *field, message);
      if (entry.second.IsNull()) nulls.push_back(field);
    }
  }
  for (const FieldDescriptor* field : nulls) ReadModelsNull(*field, message);
}

// `rope_scaling: null`, as models write it, is a block of its type, whose
// defaults apply, unless another member of the oneof says how to scale.
void Reader::ReadModelsNull(const FieldDescriptor& field, Message& message) {
  if (field.message_type() != v1::HuggingFaceRope::descriptor()) return;
  const Reflection& reflection = *message.GetReflection();
  const OneofDescriptor* oneof = field.real_containing_oneof();
  if (oneof == nullptr || reflection.HasOneof(message, oneof)) return;
  reflection.MutableMessage(&message, &field);
}

// A section of which all is commented out is one left out, and models write
// null for what they do not use. In an entry of a list a value was forgotten,
// or indented wrongly.
void Reader::ReportNoValue(const std::string& path,
                           const FieldDescriptor& field) {
  const Descriptor* model = v1::HuggingFaceRope::descriptor();
  if (!absl::StrContains(path, '[') || field.containing_type() == model ||
      field.message_type() == model) {
    return;
  }
  violations_.Add(
      path, absl::StrCat("no value; give one, or leave the key out",
                         field.is_repeated()               ? " ([]: none)"
                         : field.message_type() != nullptr ? " ({}: defaults)"
                                                           : ""));
}

void Reader::ReadField(const YAML::Node& node, const std::string& path,
                       const FieldDescriptor& field, Message& message) {
  if (node.IsNull()) return ReportNoValue(path, field);
  const Reflection& reflection = *message.GetReflection();
  if (const OneofDescriptor* oneof = field.real_containing_oneof()) {
    if (reflection.HasOneof(message, oneof)) {
      violations_.Add(
          path, absl::StrCat(
                    "excludes ",
                    reflection.GetOneofFieldDescriptor(message, oneof)->name(),
                    ", which is given too"));
      return;
    }
  }
  if (field.is_repeated()) {
    ReadList(node, path, field, message);
  } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    ReadMessage(node, path, *reflection.MutableMessage(&message, &field));
  } else {
    ReadScalar(node, path, field, message);
  }
}

void Reader::ReadList(const YAML::Node& node, const std::string& path,
                      const FieldDescriptor& field, Message& message) {
  if (!node.IsSequence()) {
    violations_.Add(path,
                    absl::StrCat("expected a list, found ", KindText(node)));
    return;
  }
  for (size_t i = 0; i < node.size(); ++i) {
    const std::string element = absl::StrCat(path, "[", i, "]");
    sources_.Set(element, node[i].Mark().line + 1);
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      ReadMessage(node[i], element,
                  *message.GetReflection()->AddMessage(&message, &field));
    } else {
      ReadScalar(node[i], element, field, message);
    }
  }
}

void Reader::ReadEnum(const std::string& text, const std::string& path,
                      const FieldDescriptor& field, Message& message) {
  const EnumValueDescriptor* value = FindEnumValue(*field.enum_type(), text);
  if (value == nullptr) {
    violations_.Add(
        path,
        absl::StrCat("\"", Clip(text, 64), "\", expected one of ",
                     absl::StrJoin(ShortNames(*field.enum_type()), ", ")));
  } else if (field.is_repeated()) {
    message.GetReflection()->AddEnum(&message, &field, value);
  } else {
    message.GetReflection()->SetEnum(&message, &field, value);
  }
}

void Reader::ReadScalar(const YAML::Node& node, const std::string& path,
                        const FieldDescriptor& field, Message& message) {
  if (!node.IsScalar()) {
    violations_.Add(
        path, absl::StrCat("expected a single value, found ", KindText(node)));
    return;
  }
  const std::string& text = node.Scalar();
  const Reflection& to = *message.GetReflection();
  const bool add = field.is_repeated();
  const auto expected = [&](absl::string_view what) {
    violations_.Add(path,
                    absl::StrCat("\"", Clip(text, 64), "\", expected ", what));
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      if (!IsUtf8(text)) return expected("UTF-8");
      add ? to.AddString(&message, &field, text)
          : to.SetString(&message, &field, text);
      return;
    case FieldDescriptor::CPPTYPE_BOOL:
      if (text == "true" || text == "True" || text == "TRUE") {
        return to.SetBool(&message, &field, true);
      }
      if (text == "false" || text == "False" || text == "FALSE") {
        return to.SetBool(&message, &field, false);
      }
      return expected("true or false");
    case FieldDescriptor::CPPTYPE_INT32: {
      int32_t value;
      if (!absl::SimpleAtoi(text, &value)) {
        if (add) to.AddInt32(&message, &field, 0);
        return expected("a 32-bit integer");
      }
      return add ? to.AddInt32(&message, &field, value)
                 : to.SetInt32(&message, &field, value);
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      int64_t value;
      if (!absl::SimpleAtoi(text, &value)) return expected("a 64-bit integer");
      return add ? to.AddInt64(&message, &field, value)
                 : to.SetInt64(&message, &field, value);
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      double value;
      if (!absl::SimpleAtod(text, &value) || !std::isfinite(value)) {
        // Lists keep their length, on which other checks depend.
        if (add) to.AddDouble(&message, &field, 0);
        return expected("a finite number");
      }
      return add ? to.AddDouble(&message, &field, value)
                 : to.SetDouble(&message, &field, value);
    }
    case FieldDescriptor::CPPTYPE_FLOAT: {
      float value;
      if (!absl::SimpleAtof(text, &value) || !std::isfinite(value)) {
        if (add) to.AddFloat(&message, &field, 0);
        return expected("a finite number");
      }
      return add ? to.AddFloat(&message, &field, value)
                 : to.SetFloat(&message, &field, value);
    }
    case FieldDescriptor::CPPTYPE_ENUM:
      return ReadEnum(text, path, field, message);
    default:
      return violations_.Add(path, "cannot be set in a configuration");
  }
}

// What the parser does not say of a line that a tab indents.
absl::string_view TabHint(const std::string& text, int line) {
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  if (line < 0 || line >= static_cast<int>(lines.size())) return "";
  const size_t start = lines[line].find_first_not_of(" ");
  if (start == absl::string_view::npos || lines[line][start] != '\t') return "";
  return "; this line is indented with a tab, YAML takes spaces";
}

class DocumentCounter : public YAML::EventHandler {
 public:
  int documents() const { return documents_; }

  void OnDocumentStart(const YAML::Mark&) override { ++documents_; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

 private:
  int documents_ = 0;
};

// Documents of the text, 2 standing for more. YAML::LoadAll does not end where
// a token belongs to none, such as a comma at the start: it takes empty ones
// from there for ever.
int Documents(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  DocumentCounter counter;
  while (counter.documents() < 2 && parser.HandleNextDocument(counter)) {
  }
  return counter.documents();
}

}  // namespace

int SourceMap::Line(absl::string_view path) const {
  while (!path.empty()) {
    if (const auto it = lines_.find(path); it != lines_.end()) {
      return it->second;
    }
    const size_t end = path.find_last_of(".[");
    path = path.substr(0, end == absl::string_view::npos ? 0 : end);
  }
  return 0;
}

void ParseYaml(const std::string& text, Message& message, SourceMap& sources,
               Violations& violations) {
  // The parser would take UTF-16 and UTF-32 as well; both have zero bytes.
  if (const size_t zero = text.find('\0'); zero != std::string::npos) {
    const auto line = std::count(text.begin(), text.begin() + zero, '\n') + 1;
    sources.Set("(syntax)", static_cast<int>(line));
    violations.Add("(syntax)", "a zero byte, as UTF-16 has, expected UTF-8");
    return;
  }
  try {
    switch (Documents(text)) {
      case 0:
        break;
      case 1:
        Reader(sources, violations).ReadMessage(YAML::Load(text), "", message);
        break;
      default:
        violations.Add("",
                       "several YAML documents, or text that is not part of "
                       "one, expected one document");
    }
  } catch (const YAML::DeepRecursion& error) {
    sources.Set("(syntax)", error.mark.line + 1);
    violations.Add("(syntax)",
                   "lists and mappings inside each other, deeper than can be "
                   "read");
  } catch (const YAML::Exception& error) {
    sources.Set("(syntax)", error.mark.line + 1);
    violations.Add("(syntax)",
                   absl::StrCat(error.msg, TabHint(text, error.mark.line)));
  }
}

}  // namespace attnd::server
