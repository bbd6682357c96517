"""Three panels over one time axis, as SVG: demand, replicas, latency."""
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, TOP, PANEL, GAP = 940, 64, 190, 60, 170, 44


class Panel:
    def __init__(self, title, highest, unit, lines, steps=False):
        self.title, self.highest, self.unit = title, highest, unit
        self.lines = lines  # [(name, colour, [(second, value or None)])]
        self.steps = steps


def nice_step(highest):
    for step in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500):
        if highest / step <= 6:
            return step
    return highest / 5


def draw(title, subtitle, seconds, shades, panels):
    """`shades`: [(begin, end, colour, name)] over all panels."""
    height = TOP + len(panels) * (PANEL + GAP) + 20
    plot = WIDTH - LEFT - RIGHT
    def x(second):
        return LEFT + plot * second / seconds
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
           f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
           f'<text x="{LEFT}" y="22" font-size="16">{escape(title)}</text>',
           f'<text x="{LEFT}" y="40" fill="#666">{escape(subtitle)}</text>']
    for index, panel in enumerate(panels):
        top = TOP + index * (PANEL + GAP) + 14
        bottom = top + PANEL
        def y(value, bottom=bottom, panel=panel):
            return bottom - PANEL * min(value, panel.highest) / panel.highest
        for begin, end, colour, name in shades:
            out.append(f'<rect x="{x(begin):.1f}" y="{top}" width="{x(end) - x(begin):.1f}" '
                       f'height="{PANEL}" fill="{colour}"/>')
            if index == 0:
                out.append(f'<text x="{x(begin) + 4:.1f}" y="{top + 13}" font-size="11" '
                           f'fill="#666">{escape(name)}</text>')
        out.append(f'<text x="{LEFT}" y="{top - 6}" font-weight="bold">{escape(panel.title)}</text>')
        step, value = nice_step(panel.highest), 0.0
        while value <= panel.highest + 1e-9:
            out.append(f'<line x1="{LEFT}" x2="{LEFT + plot}" y1="{y(value):.1f}" '
                       f'y2="{y(value):.1f}" stroke="#e4e4e4"/>'
                       f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end" '
                       f'fill="#666">{value:g}{panel.unit}</text>')
            value += step
        labels = []
        for name, colour, points in panel.lines:
            path, pen, before = [], "M", None
            for second, value in points:
                if value is None:
                    pen = "M"
                    continue
                if panel.steps and pen == "L":
                    path.append(f"L{x(second):.1f} {y(before):.1f}")
                path.append(f"{pen}{x(second):.1f} {y(value):.1f}")
                pen, before = "L", value
            out.append(f'<path d="{" ".join(path)}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
            labels.append((name, colour))
        for row, (name, colour) in enumerate(labels):
            label = top + 14 + 18 * row
            out.append(f'<line x1="{LEFT + plot + 12}" x2="{LEFT + plot + 30}" y1="{label - 4}" '
                       f'y2="{label - 4}" stroke="{colour}" stroke-width="3"/>'
                       f'<text x="{LEFT + plot + 36}" y="{label}">{escape(name)}</text>')
        for second in range(0, int(seconds) + 1, 30):
            out.append(f'<text x="{x(second):.1f}" y="{bottom + 15}" text-anchor="middle" '
                       f'fill="#666">{second}{" s" if second == 0 else ""}</text>')
    out.append("</svg>")
    return "\n".join(out) + "\n"
