#!/usr/bin/env python3
"""Writes the golden vectors beside this file: a third writing of the formulas.

    make_golden.py           writes the files
    make_golden.py --check   fails if they are not what it would write

Only the standard library, only integers, fractions and 60-digit decimals, so
that the text is the same on every machine. Nothing here is shared with the
kernels or their reference; conventions:

    lag D = t_query - t_key, in units; ticks * tick_ns / unit_ns = units
    RoPE: a pair (x, y) at time t becomes (x cos wt - y sin wt, x sin wt + y cos wt),
    for queries and keys alike; the score is the dot product of the rotated rows
    ALiBi: -slope * D, two-sided -slope * |D|

Format: records end at an empty line; a line is a key and its values.
"""

import argparse
import decimal
import math
import pathlib
import sys
from decimal import Decimal
from fractions import Fraction

decimal.getcontext().prec = 60
NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9,
      "h": 3600 * 10**9, "d": 86400 * 10**9}
YEAR_NS = 31557600 * 10**9  # 365.25 days
INT64_MIN, INT64_MAX = -2**63, 2**63 - 1


def arctan_inverse(n, bits):
    """atan(1/n) * 2^bits, a few units off in the last place."""
    total = term = (1 << bits) // n
    k = 1
    while term:
        term //= n * n
        k += 2
        total += -(term // k) if k % 4 == 3 else term // k
    return total


PI_BITS = 1400
PI = Fraction(4 * (4 * arctan_inverse(5, PI_BITS) - arctan_inverse(239, PI_BITS)),
              1 << PI_BITS)


def to_decimal(x):
    return Decimal(x.numerator) / Decimal(x.denominator)


def cos_sin(angle):
    """Of a Fraction in radians, by reduction to [0, 2 pi) and Taylor series."""
    turns = angle / (2 * PI)
    x = to_decimal((turns - math.floor(turns)) * 2 * PI)
    sums = [Decimal(0), Decimal(0)]
    term, k = Decimal(1), 0
    while k < 4 or abs(term) > Decimal(10)**-58:
        sums[k % 2] += term if k % 4 < 2 else -term
        k += 1
        term = term * x / k
    return sums[0], sums[1]


def text(x):
    if isinstance(x, (int, str)):
        return str(x)
    if isinstance(x, float):
        return x.hex() if math.isfinite(x) else str(x)
    return "-inf" if x == Decimal("-Infinity") else format(x, ".17e")


class Writer:
    def __init__(self):
        self.lines = []

    def line(self, key, *values):
        self.lines.append(" ".join([key] + [text(v) for v in values]))

    def end(self):
        self.lines.append("")

    def result(self):
        return "\n".join(self.lines)


# ---- turn frequencies and phases ---------------------------------------------


def turns_per_tick(omega, tick_ns, unit_ns):
    return Fraction(omega) * tick_ns / unit_ns / (2 * PI)


def frequency_word(omega, tick_ns, unit_ns):
    """round(2^128 * turns per tick), ties away from zero."""
    exact = abs(turns_per_tick(omega, tick_ns, unit_ns)) * 2**128
    rounded = math.floor(exact + Fraction(1, 2))
    return rounded if omega >= 0 else -rounded


OMEGAS = [
    # omega in rad per unit, tick, unit
    (2 * math.pi, 1, YEAR_NS),            # one year, nanoseconds
    (-2 * math.pi, 1, YEAR_NS),
    (2 * math.pi / 365.25, 1, NS["d"]),   # the same in days
    (2 * math.pi / 7, NS["s"], NS["d"]),
    (1.0, 1, 1),
    (1.0, NS["ms"], NS["s"]),
    (10000.0**-0.125, 1, 1),
    (10000.0**-(62 / 64), 1, NS["s"]),
    (500000.0**-(126 / 128), NS["us"], NS["h"]),
    (-0.37, NS["us"], NS["s"]),
    (1e-9, 1, NS["d"]),
    (1e9, NS["s"], 1),                    # many whole turns per tick
    (123456.789, NS["h"], NS["min"]),
    (5e-324, 1, 1),
]
LAGS = [0, 1, -1, 2, 1000, -86400 * 10**9, YEAR_NS, -YEAR_NS, 43 * YEAR_NS,
        -43 * YEAR_NS, 150 * YEAR_NS, -150 * YEAR_NS, 292 * YEAR_NS,
        1700000000 * 10**9, INT64_MAX, INT64_MIN, INT64_MIN + 1]


def phases():
    out = Writer()
    for omega, tick_ns, unit_ns in OMEGAS:
        f = frequency_word(omega, tick_ns, unit_ns)
        out.line("omega", omega)
        out.line("tick_ns", tick_ns)
        out.line("unit_ns", unit_ns)
        # whole turns, then the fraction's upper and lower 64 bits
        out.line("frequency", f >> 128, (f >> 64) % 2**64, f % 2**64)
        for n in LAGS:
            true = turns_per_tick(omega, tick_ns, unit_ns) * n
            true = to_decimal(true - math.floor(true))
            # ticks, upper half of F n mod 2^128, true phase in turns
            out.line("phase", n, (f * n % 2**128) >> 64, true)
        out.end()
    return out.result()


# ---- ALiBi slopes -------------------------------------------------------------


def published_slopes(n, bias_max=8):
    """The recursive program of the paper, for decimals."""
    power = 1
    while power * 2 <= n:
        power *= 2
    slopes = [Decimal(2)**(-Decimal(bias_max) * (h + 1) / power)
              for h in range(power)]
    if power < n:
        slopes += published_slopes(2 * power, bias_max)[0::2][:n - power]
    return slopes


def slopes():
    out = Writer()
    for n in list(range(1, 18)) + [24, 31, 32, 40, 71, 112]:
        out.line("heads", n)
        out.line("slopes", *published_slopes(n))
        out.end()
    return out.result()


# ---- attention ----------------------------------------------------------------


class Numbers:
    """Multiples of 1/64 in [-2, 2], by a linear congruence from a name."""

    def __init__(self, name):
        self.state = int.from_bytes(name.encode(), "big") % 2**64

    def __call__(self, count):
        numbers = []
        for _ in range(count):
            self.state = (self.state * 6364136223846793005 + 1) % 2**64
            numbers.append((self.state >> 33) % 257 / 64 - 2)
        return numbers


class Case:
    """One problem: batch 1, heads Hq over Hkv, and how to describe it."""

    def __init__(self, name, kind="ticks", hq=1, hkv=1, dim=4, value_dim=2,
                 query_times=(), key_times=(), tick_ns=1, unit_ns=1, blocks=(),
                 alibi=None, causal=0, strict=0, past=None, future=None,
                 scale=0.5):
        self.__dict__.update(locals())
        self.lq, self.lk = len(query_times), len(key_times)
        numbers = Numbers(name)
        self.q = numbers(hq * self.lq * dim)
        self.k = numbers(hkv * self.lk * dim)
        self.v = numbers(hkv * self.lk * value_dim)

    def planes(self):
        """(first channel, second channel, omega as Fraction) of every plane."""
        planes, first = [], 0
        for block in self.blocks:
            if block[0] == "identity":
                first += block[1]
                continue
            if block[0] == "rotary":
                _, layout, base, r = block
                r = r or self.dim - first
                omegas = [base**(-2 * j / r) for j in range(r // 2)]
            else:
                layout, omegas = block[1], block[2]
            n = len(omegas)
            for j, w in enumerate(omegas):
                pair = (j, j + n) if layout == "half" else (2 * j, 2 * j + 1)
                planes.append((first + pair[0], first + pair[1], Fraction(w)))
            first += 2 * n
        return planes

    def rotated(self, row, time):
        """RoFormer's rotation of one row that stands at `time` ticks."""
        row = [Decimal(x) for x in row]
        units = Fraction(time) * self.tick_ns / self.unit_ns
        for a, b, w in self.planes():
            c, s = cos_sin(w * units)
            row[a], row[b] = row[a] * c - row[b] * s, row[a] * s + row[b] * c
        return row

    def visible(self, i, j):
        lag = Fraction(self.query_times[i]) - Fraction(self.key_times[j])
        if self.causal and (lag < 0 or (self.strict and lag == 0)):
            return False
        if self.past is not None and lag > Fraction(self.past):
            return False
        return self.future is None or lag >= -Fraction(self.future)

    def slopes(self):
        if self.alibi is None:
            return [Decimal(0)] * self.hq
        given = [Decimal(x) for x in self.alibi[1]]
        return given * self.hq if len(given) == 1 else (
            given or published_slopes(self.hq))

    def solve(self):
        scores, lse, output = [], [], []
        d, dv = self.dim, self.value_dim
        for h in range(self.hq):
            g = h // (self.hq // self.hkv)
            keys = [self.rotated(self.k[(g * self.lk + j) * d:][:d],
                                 self.key_times[j]) for j in range(self.lk)]
            for i in range(self.lq):
                q = self.rotated(self.q[(h * self.lq + i) * d:][:d],
                                 self.query_times[i])
                row = []
                for j in range(self.lk):
                    if not self.visible(i, j):
                        row.append(None)
                        continue
                    lag = Fraction(self.query_times[i]) - Fraction(self.key_times[j])
                    units = to_decimal(lag * self.tick_ns / self.unit_ns)
                    two_sided = self.alibi and self.alibi[0] == "two_sided"
                    distance = abs(units) if two_sided else units
                    dot = sum(a * b for a, b in zip(q, keys[j]))
                    row.append(Decimal(self.scale) * dot
                               - self.slopes()[h] * distance)
                total = sum((x.exp() for x in row if x is not None), Decimal(0))
                scores += [Decimal("-Infinity") if x is None else x for x in row]
                lse.append(total.ln() if total else Decimal("-Infinity"))
                for c in range(dv):
                    output.append(sum(
                        (x.exp() / total * Decimal(self.v[(g * self.lk + j) * dv + c])
                         for j, x in enumerate(row) if x is not None), Decimal(0)))
        return scores, lse, output

    def write(self, out):
        out.line("case", self.name)
        out.line("sizes", self.hq, self.hkv, self.lq, self.lk, self.dim,
                 self.value_dim)
        out.line("scale", float(self.scale))
        out.line("units", self.tick_ns, self.unit_ns)
        if self.kind != "positions":
            out.line("query_" + self.kind, *self.query_times)
            out.line("key_" + self.kind, *self.key_times)
        for block in self.blocks:
            if block[0] == "identity":
                out.line("identity", block[1])
            elif block[0] == "rotary":
                out.line("rotary", block[1], float(block[2]), block[3])
            else:
                out.line("rotation", block[1], *[float(w) for w in block[2]])
        if self.alibi:
            out.line("alibi", self.alibi[0], *[float(s) for s in self.alibi[1]])
        for key in ("causal", "strict", "past", "future"):
            if getattr(self, key):
                out.line(key, getattr(self, key))
        out.line("query", *self.q)
        out.line("key", *self.k)
        out.line("value", *self.v)
        scores, lse, output = self.solve()
        out.line("scores", *scores)
        out.line("lse", *lse)
        out.line("output", *output)
        out.end()


EPOCH = 1700000000 * 10**9
IRREGULAR = [EPOCH + n for n in (0, 250_000_000, 250_000_000, 4 * 10**9,
                                 61 * 10**9 + 7)]
ROPE_HALF = ("rotary", "half", 10000, 0)
ROPE_PAIRS = ("rotary", "interleaved", 10000, 0)
S = NS["s"]


def cases():
    rope = dict(query_times=IRREGULAR, key_times=IRREGULAR, unit_ns=S)
    yield Case("rope_half_split", blocks=[ROPE_HALF], dim=6, **rope)
    yield Case("rope_interleaved", blocks=[ROPE_PAIRS], dim=6, **rope)
    yield Case("rope_half_split_causal_with_ties", blocks=[ROPE_HALF], causal=1,
               **rope)
    yield Case("rope_partial", dim=7, blocks=[("rotary", "half", 500000, 4)], **rope)
    yield Case("rope_partial_interleaved_after_identity", dim=8,
               blocks=[("identity", 2), ("rotary", "interleaved", 100, 4)], **rope)
    year_and_week = [2 * math.pi / 365.25, 2 * math.pi / 7, -0.001]
    decades = [EPOCH, EPOCH - 43 * YEAR_NS, EPOCH + 12345678901234567]
    for layout in ("half", "interleaved"):
        yield Case("rotation_over_43_years_" + layout, dim=6, unit_ns=NS["d"],
                   blocks=[("rotation", layout, year_and_week)],
                   query_times=decades, key_times=decades)
    yield Case("two_rotations_with_their_own_layouts", dim=8, unit_ns=S,
               blocks=[("rotation", "interleaved", [0.5, 3.25]),
                       ("rotation", "half", [0.0, -1.5])],
               query_times=IRREGULAR[:3], key_times=IRREGULAR)
    yield Case("rope_at_the_ends_of_int64", blocks=[ROPE_HALF], unit_ns=S,
               query_times=[INT64_MAX - 1, 0, -1], key_times=[0, INT64_MAX - 5, -1])
    yield Case("rope_below_zero", blocks=[ROPE_HALF],
               query_times=[-5, -4], key_times=[-5, -9])
    minutes = [EPOCH // 10**6 + n for n in (0, 30000, 90000, 90000, 1000000)]
    alibi = dict(query_times=minutes, key_times=minutes, tick_ns=NS["ms"],
                 unit_ns=NS["min"])
    for heads in (1, 3, 7):
        yield Case(f"alibi_published_slopes_{heads}_heads", hq=heads, causal=1,
                   alibi=("one_sided", []), **alibi)
    yield Case("alibi_two_sided", hq=2, alibi=("two_sided", [0.25, 1.5]), **alibi)
    yield Case("alibi_one_slope_for_all_heads", hq=2, causal=1,
               alibi=("one_sided", [1 / 60]), **alibi)
    plain = dict(query_times=[10, 20, 30, 30], key_times=[40, 10, 30, 20, 30])
    yield Case("causal_ties_visible", causal=1, **plain)
    yield Case("causal_ties_strict", causal=1, strict=1, **plain)
    yield Case("window_closed_at_both_ends", past=10, future=10, **plain)
    yield Case("window_past_only", past=10, **plain)
    yield Case("window_future_with_causality", causal=1, past=20, future=20, **plain)
    yield Case("positions_fewer_queries_than_keys", kind="positions", causal=1,
               query_times=[2, 3], key_times=[0, 1, 2, 3], blocks=[ROPE_HALF],
               alibi=("one_sided", []))
    yield Case("positions_more_queries_than_keys", kind="positions", causal=1,
               query_times=[-2, -1, 0, 1], key_times=[0, 1], blocks=[ROPE_PAIRS])
    yield Case("rope_and_alibi_grouped_heads", hq=6, hkv=2, dim=6, value_dim=3,
               blocks=[ROPE_HALF], alibi=("one_sided", []), causal=1, **rope)
    half_seconds = [float.fromhex("0x1.954fc4p+30"), float.fromhex("0x1.954fc4p+30") + 0.5,
                    float.fromhex("0x1.954fc4p+30") + 86400.25]
    yield Case("real_seconds", kind="real", blocks=[ROPE_HALF],
               alibi=("two_sided", [0.001]), past=86400.25, future=86399.75,
               tick_ns=S, unit_ns=S, query_times=half_seconds,
               key_times=half_seconds)
    yield Case("real_seconds_many_turns_per_second", kind="real",
               blocks=[("rotation", "half", [1.0, -0.125])], tick_ns=S,
               unit_ns=NS["ms"], query_times=half_seconds,
               key_times=half_seconds)


def attention():
    out = Writer()
    for case in cases():
        case.write(out)
    return out.result()


FILES = {"phases.txt": phases, "slopes.txt": slopes, "attention.txt": attention}


def write_or_check(files, about):
    """Writes the files beside this program, or tells which are not so."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    folder = pathlib.Path(__file__).parent
    stale = []
    for name, make in files.items():
        if not check:
            (folder / name).write_text(make())
        elif (folder / name).read_text() != make():
            stale.append(name)
    if stale:
        sys.exit(f"not what {parser.prog} writes: " + ", ".join(stale))


if __name__ == "__main__":
    write_or_check(FILES, __doc__)
