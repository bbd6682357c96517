#include "client/plot/svg.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace attnd::client {
namespace {

// A tenth of a pixel is finer than any screen shows.
std::string At(SvgPoint point) {
  return absl::StrFormat("%.1f %.1f", point.x, point.y);
}

}  // namespace

std::string XmlText(absl::string_view text) {
  std::string result;
  for (char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        if (!absl::ascii_iscntrl(c)) result += c;
    }
  }
  return result;
}

Svg::Svg(double width, double height, absl::string_view title,
         absl::string_view description, absl::string_view name)
    : name_(name) {
  body_ = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\" height=\"%g\" "
      "viewBox=\"0 0 %g %g\" role=\"img\" font-family=\"Helvetica, Arial, "
      "'DejaVu Sans', sans-serif\">\n<title>%s</title>\n<desc>%s</desc>\n",
      width, height, width, height, XmlText(title), XmlText(description));
  Rect({0, 0, width, height}, "#fff");
}

void Svg::Rect(const SvgRect& rect, absl::string_view fill,
               absl::string_view stroke) {
  absl::StrAppendFormat(
      &body_,
      "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
      "fill=\"%s\" stroke=\"%s\"/>\n",
      rect.left, rect.top, rect.width, rect.height, fill, stroke);
}

void Svg::Line(SvgPoint a, SvgPoint b, absl::string_view color, double width) {
  Path({a, b}, color, width);
}

void Svg::Path(absl::Span<const SvgPoint> points, absl::string_view color,
               double width, absl::string_view dash) {
  if (points.empty()) return;
  absl::StrAppendFormat(&body_,
                        "<path fill=\"none\" stroke=\"%s\" stroke-width=\"%g\"",
                        color, width);
  if (!dash.empty()) {
    absl::StrAppend(&body_, " stroke-dasharray=\"", dash, "\"");
  }
  absl::StrAppend(&body_, " stroke-linejoin=\"round\" d=\"M", At(points[0]));
  for (SvgPoint point : points.subspan(1)) {
    absl::StrAppend(&body_, "L", At(point));
  }
  absl::StrAppend(&body_, "\"/>\n");
}

void Svg::Dots(absl::Span<const SvgPoint> points, absl::string_view color,
               double diameter) {
  if (points.empty()) return;
  // Lines of no length with round ends: a third of the bytes of circles.
  absl::StrAppendFormat(&body_,
                        "<path fill=\"none\" stroke=\"%s\" "
                        "stroke-width=\"%g\" stroke-linecap=\"round\" d=\"",
                        color, diameter);
  for (SvgPoint point : points) absl::StrAppend(&body_, "M", At(point), "h0");
  absl::StrAppend(&body_, "\"/>\n");
}

void Svg::Cells(absl::Span<const SvgPoint> middles, double width, double height,
                absl::string_view color) {
  if (middles.empty()) return;
  // Thick lines: a fourth of the bytes of rectangles.
  absl::StrAppendFormat(&body_,
                        "<path fill=\"none\" stroke=\"%s\" "
                        "stroke-width=\"%.2f\" d=\"",
                        color, height);
  for (SvgPoint middle : middles) {
    absl::StrAppendFormat(&body_, "M%sh%.1f",
                          At({middle.x - width / 2, middle.y}), width);
  }
  absl::StrAppend(&body_, "\"/>\n");
}

void Svg::Text(SvgPoint at, absl::string_view text, const SvgText& style) {
  absl::StrAppendFormat(
      &body_,
      "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"%g\" "
      "fill=\"%s\"",
      at.x, at.y, style.anchor, style.size, style.color);
  if (style.bold) absl::StrAppend(&body_, " font-weight=\"bold\"");
  if (style.turn != 0) {
    absl::StrAppendFormat(&body_, " transform=\"rotate(%g %s)\"", style.turn,
                          At(at));
  }
  absl::StrAppend(&body_, ">", XmlText(text), "</text>\n");
}

void Svg::BeginClip(const SvgRect& rect) {
  ++clips_;
  absl::StrAppendFormat(
      &body_,
      "<clipPath id=\"%s%d\"><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
      "height=\"%.1f\"/></clipPath>\n<g clip-path=\"url(#%s%d)\">\n",
      name_, clips_, rect.left, rect.top, rect.width, rect.height, name_,
      clips_);
}

void Svg::EndClip() { absl::StrAppend(&body_, "</g>\n"); }

std::string Svg::Finish() const { return absl::StrCat(body_, "</svg>\n"); }

}  // namespace attnd::client
