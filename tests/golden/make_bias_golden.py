#!/usr/bin/env python3
"""Writes biases.txt, gates.txt and absolutes.txt: a third writing of the biases,
the absolute parts and the query temperature.

    make_bias_golden.py           writes the files
    make_bias_golden.py --check   fails if they are not what it would write

Only the standard library, decimals of 60 digits. Nothing is shared with the
kernels; conventions: lag D = t_query - t_key in units of unit_ns, past keys D >= 0.

    biases.txt     functions of the lag (FIRE: and of the query's time since the
                   first key); one record per term, a line "at" per value: head,
                   lag in ticks, elapsed ticks, bias
    gates.txt      cumulative gates and GRAPE additive on small items: bias of
                   query i and key j, row by row
    absolutes.txt  vectors added to q and k, per time: ticks, index, channels; and
                   factors of queries
"""

import decimal
import math
import sys
from decimal import Decimal
from fractions import Fraction

sys.dont_write_bytecode = True
from make_golden import NS, Writer, cos_sin, write_or_check  # noqa: E402

decimal.getcontext().prec = 60
D = Decimal
S = NS["s"]


def units(ticks, tick_ns, unit_ns):
    return D(ticks) * tick_ns / unit_ns


def floor_near(x):
    """floor, where what is an integer but for the last digits is one."""
    nearest = x.to_integral_value()
    return int(nearest) if abs(x - nearest) < D(10)**-40 else math.floor(x)


def power(base, exponent):
    return (D(exponent) * D(base).ln()).exp()


def cosine(x):
    return cos_sin(Fraction(x))[0]


def sine(x):
    return cos_sin(Fraction(x))[1]


def table(seed, count):
    """Floats with few bits, without pattern."""
    return [((seed * 7919 + i * 104729 + i * i * 31) % 4093 - 2046) / 512
            for i in range(count)]


# ---- functions of the lag --------------------------------------------------------


def t5_bucket(lag, buckets, max_distance, bidirectional):
    base = 0
    if bidirectional:
        buckets //= 2
        if lag <= -1:
            base = buckets
        n = abs(lag)
    else:
        n = max(lag, D(0))
    exact = buckets // 2
    if n < exact:
        return base + math.floor(n)
    ratio = (n / exact).ln() / (D(max_distance) / exact).ln()
    return base + min(exact + floor_near(ratio * (buckets - exact)), buckets - 1)


def hstu_bucket(lag, log_step, max_bucket):
    return min(floor_near(max(D(1), abs(lag)).ln() / D(log_step)), max_bucket)


def kerple(lag, form, r1, r2):
    x = abs(lag)
    if form == "log":
        return -D(r1) * (1 + D(r2) * x).ln()
    return -D(r1) * power(x, D(r2)) if x else D(0)


def sandwich(lag, dim, base, head, heads):
    total = sum(cosine(lag * power(base, D(-2 * i) / dim))
                for i in range(1, dim // 2 + 1))
    return (total - D(dim) / 2) / (D(8 * (head + 1)) / heads)


def fire(lag, elapsed, term, head):
    psi = lambda x: (abs(D(term["c"]) * x) + 1).ln()
    u = psi(lag) / (psi(max(elapsed, D(term["threshold"]))) + D("1e-6"))
    hidden = [max(D(w) * u + D(b), D(0)) for w, b in zip(term["w1"], term["b1"])]
    h = len(hidden)
    return D(term["b2"][head]) + sum(
        D(w) * x for w, x in zip(term["w2"][head * h:(head + 1) * h], hidden))


def interpolate(lag, lags, values, absolute):
    x = abs(lag) if absolute else lag
    if x <= D(lags[0]):
        return D(values[0])
    for k in range(1, len(lags)):
        if x <= D(lags[k]):
            f = (x - D(lags[k - 1])) / (D(lags[k]) - D(lags[k - 1]))
            return (1 - f) * D(values[k - 1]) + f * D(values[k])
    return D(values[-1])


# Around every small border, in units of 2^-3, then far away.
LAGS = ([D(i) / 8 for i in range(-24, 150)] +
        [D(x) for x in (37.5, 63.999, 64, 64.001, 89.9, 90, 90.6, 127, 128, 129,
                        500, 4095, 86399.5, 86400, 1e6, 31557600, 3155760000)])


def write_term(out, name, tick_ns, unit_ns, fields, heads, bias, lags, elapsed=0):
    out.line("term", name)
    out.line("heads", heads)
    out.line("ratio", tick_ns, unit_ns)
    for key, values in fields.items():
        out.line(key, *values)
    for head in range(heads):
        for lag in lags:
            ticks = int(lag * unit_ns / tick_ns)
            out.line("at", head, ticks, elapsed,
                     bias(head, units(ticks, tick_ns, unit_ns)))
    out.end()


def biases():
    out = Writer()
    values = table(1, 64)
    for bidirectional in (0, 1):
        for buckets, max_distance in ((32, 128.0), (16, 1000.0), (6, 50.5)):
            write_term(
                out, "t5", NS["ms"], S,
                {"buckets": [buckets], "max_distance": [max_distance],
                 "bidirectional": [bidirectional], "table": values[:buckets]}, 1,
                lambda head, lag: D(values[t5_bucket(lag, buckets, max_distance,
                                                     bidirectional)]), LAGS)
    positions = [D(n) for n in (0, 1, 2, 7, 8, 9, 15, 16, 17, 18, 20, 22, 24, 31, 32,
                                33, 45, 63, 64, 65, 90, 112, 127, 128, 129, 500)]
    for bidirectional in (0, 1):
        write_term(
            out, "t5", 1, 1,
            {"buckets": [32], "max_distance": [128.0],
             "bidirectional": [bidirectional], "table": [float(b) for b in range(32)]},
            1, lambda head, lag: D(t5_bucket(lag, 32, 128.0, bidirectional)),
            positions + [-p for p in positions])
    values = table(2, 129)
    write_term(out, "hstu", 1, S,
               {"max_bucket": [128], "log_step": [0.301], "table": values}, 1,
               lambda head, lag: D(values[hstu_bucket(lag, 0.301, 128)]),
               LAGS + [D(60), D(3600), D(86400 * 30), D("1.35"), D("1.36")])
    for form in ("log", "power"):
        r1, r2 = [0.5, 2.0, 0.01], [0.25, 1.0, 2.0]
        write_term(out, "kerple_" + form, NS["us"], S, {"r1": r1, "r2": r2}, 3,
                   lambda head, lag: kerple(lag, form, r1[head], r2[head]),
                   LAGS[::7])
    for dim, base, heads in ((64, 10000.0, 8), (6, 100.0, 2)):
        write_term(out, "sandwich", NS["ms"], S, {"dim": [dim], "base": [base]}, heads,
                   lambda head, lag: sandwich(lag, dim, base, head, heads),
                   [D(0), D(1), D(10), D(100), D("0.001"), D(-7), D(4321)])
    term = {"c": 0.125, "threshold": 20.0, "w1": table(3, 5), "b1": table(4, 5),
            "w2": table(5, 10), "b2": table(6, 2)}
    for elapsed in (0, 5000, 20000, 90000, 10**9):
        write_term(out, "fire", NS["ms"], S,
                   {"c": [term["c"]], "threshold": [term["threshold"]],
                    **{k: term[k] for k in ("w1", "b1", "w2", "b2")}}, 2,
                   lambda head, lag: fire(lag, D(elapsed) / 1000, term, head),
                   LAGS[::9], elapsed)
    lags, values = [-2.0, 0.5, 1.0, 37.5, 4000.0], table(7, 5)
    for absolute in (0, 1):
        knots = [abs(lags[0]) / 8] + lags[1:] if absolute else lags
        write_term(out, "lag_table", NS["ms"], S,
                   {"lags": knots, "values": values, "absolute": [absolute]}, 1,
                   lambda head, lag: interpolate(lag, knots, values, absolute), LAGS)
    return out.result()


# ---- gates and GRAPE additive ----------------------------------------------------


def gated(i, j, query, key, gates, weight):
    """Sum over keys l, in order, between the two."""
    seen = sum(1 for t in key if t <= query[i])
    low, high = sorted((seen, j + 1))
    return sum(D(gates[l]) * weight(l) for l in range(low, high))


def softplus(x):
    return (1 + x.exp()).ln()


def gates():
    out = Writer()
    key = [0, 0, 500, 1000, 4000, 4000, 90000]
    query = [-100, 0, 700, 4000, 95000]
    values = [-g / 64 for g in (3, 17, 40, 1, 999, 0, 12)]
    for name, weight in (
            ("per_key", lambda l: D(1)),
            ("per_unit", lambda l: D(key[l] - key[l - 1]) / 1000 if l else D(0)),
            ("both", lambda l: 1 + (D(key[l] - key[l - 1]) / 1000 if l else D(0)))):
        out.line("gates", name)
        out.line("ratio", NS["ms"], S)
        out.line("key", *key)
        out.line("query", *query)
        out.line("values", *values)
        for i in range(len(query)):
            out.line("row", *(gated(i, j, query, key, values, weight)
                              for j in range(len(key))))
        out.end()
    dim, slopes = 4, [0.5, 0.0625]
    v, u = table(8, dim), table(9, dim)
    q = [table(10 + i, dim) for i in range(len(query))]
    k = [table(20 + j, dim) for j in range(len(key))]
    for name, use_v, use_u in (("both", 1, 1), ("query", 1, 0), ("key", 0, 1)):
        out.line("grape", name)
        out.line("ratio", NS["ms"], S)
        out.line("key", *key)
        out.line("query", *query)
        out.line("slopes", *slopes)
        out.line("query_direction", *(v if use_v else []))
        out.line("key_direction", *(u if use_u else []))
        for rows, label in ((q, "q"), (k, "k")):
            for row in rows:
                out.line(label, *row)
        dot = lambda a, b: sum(D(x) * D(y) for x, y in zip(a, b)) / D(dim).sqrt()
        for head, slope in enumerate(slopes):
            for i, t in enumerate(query):
                out.line("row", *(
                    -D(slope) * abs(D(t - s) / 1000) *
                    ((softplus(dot(v, q[i])) if use_v else 0) +
                     (softplus(dot(u, k[j])) if use_u else 0))
                    for j, s in enumerate(key)))
        out.end()
    return out.result()


# ---- absolute parts and temperature ----------------------------------------------


def sinusoid(t, dim, base, order, amplitude):
    pairs = dim // 2
    span = max(pairs - 1, 1) if order == "endpoints" else pairs
    angles = [t * power(base, D(-i) / span) for i in range(pairs)]
    if order == "interleaved":
        flat = [f(a) for a in angles for f in (sine, cosine)]
    else:
        flat = [sine(a) for a in angles] + [cosine(a) for a in angles]
    return [D(amplitude) * x for x in flat]


def time2vec(t, frequencies, phases):
    return [D(w) * t + D(b) if c == 0 else sine(D(w) * t + D(b))
            for c, (w, b) in enumerate(zip(frequencies, phases))]


def thp(t, dim):
    return [cosine(t / power(10000, D(i - 1) / dim)) if i % 2 else
            sine(t / power(10000, D(i) / dim)) for i in range(1, dim + 1)]


def project(matrix, vector):
    n = len(vector)
    return [sum(D(w) * x for w, x in zip(matrix[r * n:(r + 1) * n], vector))
            for r in range(len(matrix) // n)]


def table_row(x, rows, dim, values, boundary, interpolation):
    """At position x, offset included; "-" where it is refused."""
    if interpolation == "exact" and x != math.floor(x):
        return None
    if interpolation in ("exact", "nearest"):
        x = D(math.floor(x + D("0.5")))
    if boundary == "error" and not 0 <= x <= rows - 1:
        return None
    if boundary == "clamp":
        x = min(max(x, D(0)), D(rows - 1))
    row = lambda r: values[(r % rows if boundary == "wrap" else
                            min(max(r, 0), rows - 1)) * dim:][:dim]
    p, f = math.floor(x), x - math.floor(x)
    if interpolation == "cubic":  # Catmull-Rom, in the form of its derivation
        out = []
        for a, b, c, d in zip(row(p - 1), row(p), row(p + 1), row(p + 2)):
            a, b, c, d = D(a), D(b), D(c), D(d)
            m0, m1 = (c - a) / 2, (d - b) / 2
            out.append((2 * f**3 - 3 * f**2 + 1) * b + (f**3 - 2 * f**2 + f) * m0 +
                       (-2 * f**3 + 3 * f**2) * c + (f**3 - f**2) * m1)
        return out
    return [(1 - f) * D(a) + f * D(b) for a, b in zip(row(p), row(p + 1))]


TIMES = [0, 1, 999, 1000, 1500, 2000, -3000, 7000, 7250, 123456, 86400000]


def absolutes():
    out = Writer()

    def part(name, dim, origin, fields, at, times=TIMES):
        out.line("part", name)
        out.line("dim", dim)
        out.line("ratio", NS["ms"], S)
        out.line("origin", origin)
        for key, values in fields.items():
            out.line(key, *values)
        for index, ticks in enumerate(times):
            vector = at(D(ticks - origin) / 1000, index)
            out.line("at", ticks, index, *(["-"] if vector is None else vector))
        out.end()

    for order in ("interleaved", "concatenated", "endpoints"):
        part("sinusoidal", 8, 500, {"order": [order], "base": [10000.0],
                                    "amplitude": [0.75]},
             lambda t, index: sinusoid(t, 8, 10000.0, order, 0.75))
    w, b = [0.25, 1.5, -3.0, 0.001], [0.5, -1.0, 0.25, 4.0]
    part("time2vec", 4, 0, {"frequencies": w, "phases": b},
         lambda t, index: time2vec(t, w, b))
    weights = [table(31, 12), table(32, 12)]
    for target in (0, 1):
        part("mtand", 3, 0, {"frequencies": w, "phases": b, "query": weights[0],
                             "key": weights[1], "target": [target]},
             lambda t, index: project(weights[target], time2vec(t, w, b)))
    part("thp", 6, 0, {}, lambda t, index: thp(t, 6))
    v, w2 = [0.5, 0.125, 2.0], [1.0, -0.25, 0.01]
    part("sahp", 3, 0, {"index_frequencies": v, "time_frequencies": w2},
         lambda t, index: [sine(D(x) * index + D(y) * t) for x, y in zip(v, w2)])
    values = table(40, 16)
    for boundary in ("error", "clamp", "wrap"):
        for interpolation in ("exact", "nearest", "linear", "cubic"):
            for step, offset in ((1.0, 0), (0.5, 2)):
                part("table", 2, 0,
                     {"rows": [8], "table": values, "step": [step],
                      "row_offset": [offset], "boundary": [boundary],
                      "interpolation": [interpolation]},
                     lambda t, index: table_row(t / D(step) + offset, 8, 2, values,
                                                boundary, interpolation),
                     TIMES + [-1, -500, -499, 250, 6999, 7001, 7499, 7500, 2750])
    for length, scale, offset in ((8192.0, 0.1, 0.0), (2.0, 0.25, 1.5)):
        out.line("temperature", "llama4", length, scale, offset)
        for ticks in (0, 1999, 2000, 8191999, 8192000, 10**9, 10**12):
            floor = math.floor((D(ticks) / 1000 + D(offset)) / D(length))
            out.line("at", ticks, 1 + D(scale) * (1 + D(floor)).ln())
        out.end()
        out.line("temperature", "log_length", length, scale, offset)
        for n in (0, 1, 2, 3, 100, 8192, 10000):
            ratio = D(max(n, 1)).ln() / D(length).ln()
            out.line("at", n, max(D(1), ratio))
        out.end()
    return out.result()


FILES = {"biases.txt": biases, "gates.txt": gates, "absolutes.txt": absolutes}


if __name__ == "__main__":
    write_or_check(FILES, __doc__)
