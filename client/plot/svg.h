// Writes a drawing as SVG.
#ifndef ATTND_CLIENT_PLOT_SVG_H_
#define ATTND_CLIENT_PLOT_SVG_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace attnd::client {

// In pixels from the upper left corner.
struct SvgPoint {
  double x;
  double y;
};

struct SvgRect {
  double left;
  double top;
  double width;
  double height;
  double right() const { return left + width; }
  double bottom() const { return top + height; }
};

// How text is set.
struct SvgText {
  const char* anchor = "start";  // start, middle or end
  double size = 13;
  const char* color = "#333";
  bool bold = false;
  // Degrees, clockwise, about the point.
  double turn = 0;
};

// Collects shapes in drawing order; later ones cover earlier ones. The result
// needs nothing but itself: no fonts, styles, scripts or links from outside.
class Svg {
 public:
  // `title` and `description` are what screen readers say. Drawings that share
  // a page need a `name` each, of letters.
  Svg(double width, double height, absl::string_view title,
      absl::string_view description, absl::string_view name = "c");

  void Rect(const SvgRect& rect, absl::string_view fill,
            absl::string_view stroke = "none");
  void Line(SvgPoint a, SvgPoint b, absl::string_view color,
            double width = 1.0);
  // `dash` as in stroke-dasharray; empty = solid.
  void Path(absl::Span<const SvgPoint> points, absl::string_view color,
            double width, absl::string_view dash = "");
  void Dots(absl::Span<const SvgPoint> points, absl::string_view color,
            double diameter);
  // Upright rectangles of one size around their middles.
  void Cells(absl::Span<const SvgPoint> middles, double width, double height,
             absl::string_view color);
  void Text(SvgPoint at, absl::string_view text, const SvgText& style = {});

  // Shapes between the two are cut off at the rectangle.
  void BeginClip(const SvgRect& rect);
  void EndClip();

  // The whole document.
  std::string Finish() const;

 private:
  std::string name_;
  std::string body_;
  int clips_ = 0;
};

// &, <, > and quotes as XML and HTML want them; control characters left out.
std::string XmlText(absl::string_view text);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_PLOT_SVG_H_
