// How --help is set.
#ifndef ATTND_CLIENT_ATTNCTL_MANUAL_FORMAT_H_
#define ATTND_CLIENT_ATTNCTL_MANUAL_FORMAT_H_

#include <CLI/App.hpp>
#include <CLI/Formatter.hpp>
#include <string>

namespace attnd::client {

// CLI11's layout, wrapped to 80 columns, without the marks that only its own
// tests need ("Needs:", "Excludes:", "...").
class ManualFormat : public CLI::Formatter {
 public:
  ManualFormat();
  // "--json[=FILE]" for a flag that may have a value.
  std::string make_option_name(const CLI::Option* option,
                               bool positional) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
};

// Breaks a text at spaces into lines of at most `width` characters; a longer
// word stands alone.
std::string Wrapped(const std::string& text, size_t width);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_ATTNCTL_MANUAL_FORMAT_H_
