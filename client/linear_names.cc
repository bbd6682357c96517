#include "client/linear_names.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace attnd::client {

v1::LinearOptions LinearOptionsOf(const std::string& normaliser,
                                  const std::string& feature_map,
                                  const std::string& input_rule) {
  const auto name = [](const char* prefix, const std::string& value) {
    return absl::StrCat(prefix, absl::AsciiStrToUpper(value));
  };
  auto n = v1::LinearOptions::NORMALISER_UNSPECIFIED;
  auto f = v1::LinearOptions::FEATURE_MAP_UNSPECIFIED;
  auto r = v1::LinearOptions::INPUT_RULE_UNSPECIFIED;
  v1::LinearOptions::Normaliser_Parse(name("NORMALISER_", normaliser), &n);
  v1::LinearOptions::FeatureMap_Parse(name("FEATURE_MAP_", feature_map), &f);
  v1::LinearOptions::InputRule_Parse(name("INPUT_RULE_", input_rule), &r);
  v1::LinearOptions options;
  options.set_normaliser(n);
  options.set_feature_map(f);
  options.set_input_rule(r);
  return options;
}

}  // namespace attnd::client
