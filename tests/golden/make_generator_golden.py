#!/usr/bin/env python3
"""Writes rotary.txt, generators.txt and families.txt: a third writing of the generator blocks.

    make_generator_golden.py           writes the files
    make_generator_golden.py --check   fails if they are not what it would write

Only the standard library, decimals of 120 digits. Nothing is shared with the
kernels; conventions: lag D = t_query - t_key >= 0 for past keys, score q^T A(D) k.

    rotary.txt      frequencies and amplitude of RoPE's scalings, from the papers
                    and, where they differ, from the published code (YaRN's ramp)
    generators.txt  A(D) of blocks: rotations and decays written out, Jordan chains
                    by their polynomials, everything else by the power series
    families.txt    A(D) of presets and of a rotation in a Cayley basis; of LieRE
                    exp(x A + y B) at places (x, y)
"""

import decimal
import math
import sys
from decimal import Decimal
from fractions import Fraction

sys.dont_write_bytecode = True
from make_golden import PI, Writer, cos_sin, to_decimal, write_or_check  # noqa: E402

decimal.getcontext().prec = 120
TWO_PI = 2 * to_decimal(PI)


# ---- RoPE and its scalings ------------------------------------------------------


def power(base, exponent):
    return (Decimal(exponent) * Decimal(base).ln()).exp()


def ladder(base, r):
    return [power(base, Decimal(-2 * j) / r) for j in range(r // 2)]


def clamp(x):
    return min(max(x, Decimal(0)), Decimal(1))


def yarn(c):
    r, s, length = c["dim"], Decimal(c["factor"]), Decimal(c["original_length"])
    fast, slow = Decimal(c.get("beta_fast", 32)), Decimal(c.get("beta_slow", 1))
    plane = lambda turns: (r * (length / (turns * TWO_PI)).ln()
                           / (2 * Decimal(c["base"]).ln()))
    low, high = plane(fast), plane(slow)
    if c.get("truncate", 1):
        low, high = Decimal(math.floor(low)), Decimal(math.ceil(high))
    low, high = max(low, Decimal(0)), min(high, Decimal(r - 1))
    if low == high:
        high += Decimal("0.001")
    out = []
    for j, w in enumerate(ladder(c["base"], r)):
        if c.get("paper_ramp", 0):
            turns = length * w / TWO_PI
            kept = clamp((turns - slow) / (fast - slow))
        else:
            kept = 1 - clamp((j - low) / (high - low))
        out.append(kept * w + (1 - kept) * w / s)
    m = lambda k: Decimal(1) if s <= 1 else Decimal(k) * s.ln() / 10 + 1
    if "attention_factor" in c:
        amplitude = Decimal(c["attention_factor"])
    elif c.get("mscale") and c.get("mscale_all_dim"):
        amplitude = m(c["mscale"]) / m(c["mscale_all_dim"])
    else:
        amplitude = m(1)
    return out, amplitude


def longrope(c):
    long = c["length"] > c["original_length"]
    divisors = c["long_factor" if long else "short_factor"]
    out = [1 / (Decimal(x) * power(c["base"], Decimal(2 * j) / c["dim"]))
           for j, x in enumerate(divisors)]
    if "attention_factor" in c:
        return out, Decimal(c["attention_factor"])
    f = Decimal(c["factor"])
    if f <= 1:
        return out, Decimal(1)
    return out, (1 + f.ln() / Decimal(c["original_length"]).ln()).sqrt()


def llama3(c):
    f, low, high = (Decimal(c.get(k, v)) for k, v in
                    (("factor", 8), ("low_freq_factor", 1), ("high_freq_factor", 4)))
    length = Decimal(c.get("original_length", 8192))
    out = []
    for w in ladder(c["base"], c["dim"]):
        wavelength = TWO_PI / w
        if wavelength > length / low:
            out.append(w / f)
        elif wavelength < length / high:
            out.append(w)
        else:
            smooth = (length / wavelength - low) / (high - low)
            out.append((1 - smooth) * w / f + smooth * w)
    return out, Decimal(1)


def rotary(c):
    r, base, kind = c["dim"], c["base"], c["scaling"]
    if kind == "none":
        return ladder(base, r), Decimal(1)
    if kind == "linear":
        return [w / Decimal(c["factor"]) for w in ladder(base, r)], Decimal(1)
    if kind in ("ntk", "dynamic_ntk"):
        stretch = Decimal(c["factor"])
        if kind == "dynamic_ntk":
            n = max(c["length"], c["original_length"])
            stretch = stretch * n / c["original_length"] - (stretch - 1)
        return ladder(Decimal(base) * power(stretch, Decimal(r) / (r - 2)), r), \
            Decimal(1)
    if kind == "proportional":
        kept = math.floor(Fraction(c["fraction"]) * r / 2)
        return [w / Decimal(c.get("factor", 1)) if j < kept else 0
                for j, w in enumerate(ladder(base, r))], Decimal(1)
    return {"yarn": yarn, "longrope": longrope, "llama3": llama3}[kind](c)


def rotary_cases():
    for r, base in ((2, 10000), (64, 10000), (128, 500000), (6, 100)):
        yield dict(dim=r, base=base, scaling="none")
    yield dict(dim=64, base=10000, scaling="linear", factor=2.5)
    yield dict(dim=128, base=10000, scaling="ntk", factor=4)
    for n in (0, 4096, 4097, 8192, 100000):
        yield dict(dim=128, base=10000, scaling="dynamic_ntk", factor=2,
                   original_length=4096, length=n)
    y = dict(dim=128, base=10000, scaling="yarn", factor=4, original_length=4096)
    yield y
    yield dict(y, truncate=0)
    yield dict(y, paper_ramp=1)
    yield dict(y, attention_factor=1)
    yield dict(y, mscale=0.707, mscale_all_dim=1.5)
    yield dict(y, mscale=0.707)
    yield dict(y, mscale=0.707, mscale_all_dim=0)
    yield dict(y, factor=1)
    yield dict(y, dim=64, base=150000, factor=32, truncate=0)  # gpt-oss
    yield dict(y, dim=4, factor=10, original_length=64)
    yield dict(y, dim=8, beta_fast=2, beta_slow=2)
    yield dict(y, dim=64, original_length=16)     # both borders below plane 0
    yield dict(y, dim=8, original_length=10**9)   # the upper border at r - 1
    long = dict(dim=8, base=10000, scaling="longrope", original_length=4096,
                short_factor=[1, 1.5, 2, 2.5], long_factor=[2, 4, 16, 63.75])
    for n in (0, 4096, 4097):
        yield dict(long, factor=32, length=n)
    yield dict(long, factor=1, length=1)
    yield dict(long, attention_factor=1.25, length=5000)
    yield dict(dim=128, base=500000, scaling="llama3")
    yield dict(dim=64, base=500000, scaling="llama3", factor=32)
    yield dict(dim=64, base=10000, scaling="llama3", low_freq_factor=2,
               high_freq_factor=32, original_length=1024)
    yield dict(dim=512, base=10000, scaling="proportional", fraction=0.25)
    yield dict(dim=10, base=10000, scaling="proportional", fraction=0.5, factor=3)


def rotary_text():
    out = Writer()
    for c in rotary_cases():
        out.line("scaling", c["scaling"])
        for key, value in c.items():
            if key != "scaling":
                out.line(key, *(value if isinstance(value, list) else [value]))
        frequencies, amplitude = rotary(c)
        out.line("frequencies", *frequencies)
        out.line("amplitude", amplitude)
        out.end()
    return out.result()


# ---- matrices -------------------------------------------------------------------


def identity(n):
    return [[Decimal(i == j) for j in range(n)] for i in range(n)]


def product(a, b):
    return [[sum(x * y for x, y in zip(row, column)) for column in zip(*b)]
            for row in a]


def add(a, b, factor=1):
    return [[x + factor * y for x, y in zip(r, s)] for r, s in zip(a, b)]


def scaled(a, factor):
    return [[x * factor for x in row] for row in a]


def series(x):
    """exp(X) and phi1(X): power series of X / 2^k, then doubling."""
    norm = sum(abs(e) for row in x for e in row)
    halvings = max(0, math.ceil(math.log2(float(norm)))) + 2 if norm else 0
    a = scaled(x, Decimal(2)**-halvings)
    phi, term, k = identity(len(x)), identity(len(x)), 1
    while any(abs(e) > Decimal(10)**-118 for row in term for e in row):
        k += 1
        term = scaled(product(term, a), Decimal(1) / k)
        phi = add(phi, term)
    exp = add(identity(len(x)), product(a, phi))
    for _ in range(halvings):
        phi = scaled(add(product(exp, phi), phi), Decimal("0.5"))
        exp = product(exp, exp)
    return exp, phi


def exp_of(x, lag, averaged):
    lag = to_decimal(Fraction(lag))
    return series(scaled([[Decimal(e) for e in row] for row in x], lag))[averaged]


def put(a, rows, columns, block):
    for i, row in zip(rows, block):
        for j, x in zip(columns, row):
            a[i][j] = x


def rotation(w, lag):
    """RoFormer: (R(w t) q) . (R(w s) k) = q^T R(w (s - t)) k."""
    c, s = cos_sin(-Fraction(w) * Fraction(lag))
    return [[c, -s], [s, c]]


def to_the(x, exponent):
    return x**exponent if exponent else Decimal(1)


def decay(rate, lag):
    return (-Decimal(rate) * to_decimal(Fraction(lag))).exp()


def pairs(layout, n, first=0):
    return [(first + (j if layout == "half" else 2 * j),
             first + (j + n if layout == "half" else 2 * j + 1)) for j in range(n)]


def each(values, n):
    return values * n if len(values) == 1 else values


# A(D) of the block kinds, as their formulas read.


def closed_form(c, lag):
    d = to_decimal(Fraction(lag))
    a = identity(c["dim"])
    kind = c["kind"]
    if kind in ("rotation", "damped_rotation"):
        n = len(c["frequencies"])
        rates = each(c.get("rates", [0.0]), n)
        for pair, w, rate in zip(pairs(c["layout"], n), c["frequencies"], rates):
            put(a, pair, pair, scaled(rotation(w, lag), decay(rate, lag)))
    elif kind == "component_decay":
        for i, rate in enumerate(each(c["rates"], c["dim"])):
            a[i][i] = decay(rate, lag)
    elif kind == "real_jordan":
        m = c["size"]
        for start in range(0, c["dim"], m):
            rate = each(c["rates"], c["dim"] // m)[start // m]
            for i in range(m):
                for j in range(i, m):
                    a[start + i][start + j] = (
                        decay(rate, lag) * to_the(d / Decimal(c["tau"]), j - i)
                        / math.factorial(j - i))
    elif kind == "complex_jordan":
        m = c["size"]
        for f, w in enumerate(c["frequencies"]):
            rate = each(c["rates"], len(c["frequencies"]))[f]
            for i in range(m):
                for j in range(i, m):
                    jet = decay(rate, lag) * to_the(Decimal(c["eta"]) * d, j - i) \
                        / math.factorial(j - i)
                    start = 2 * m * f
                    put(a, (start + 2 * i, start + 2 * i + 1),
                        (start + 2 * j, start + 2 * j + 1),
                        scaled(rotation(w, lag), jet))
    elif kind == "skew_rank2":
        u, v = ([Decimal(x) for x in c[key]] for key in "ab")
        dot = lambda x, y: sum(p * q for p, q in zip(x, y))
        s = (dot(u, u) * dot(v, v) - dot(u, v)**2).sqrt()
        skew = [[p * q - r * t for q, t in zip(v, u)] for p, r in zip(u, v)]
        angle = Fraction(s) * Fraction(c["frequency"]) * Fraction(lag)
        co, si = cos_sin(angle)
        a = add(add(a, skew, si / s), product(skew, skew), (1 - co) / s**2)
    return a


def generator(c):
    """X = dA/dD at 0, for the average."""
    dim = c["dim"]
    x = [[Decimal(0)] * dim for _ in range(dim)]
    if c["kind"] == "dense":
        return [[Decimal(e) for e in c["matrix"][i * dim:(i + 1) * dim]]
                for i in range(dim)]
    if c["kind"] == "component_decay":
        for i, rate in enumerate(each(c["rates"], dim)):
            x[i][i] = -Decimal(rate)
    elif c["kind"] in ("rotation", "damped_rotation"):
        n = len(c["frequencies"])
        for (i, j), w, rate in zip(pairs(c["layout"], n), c["frequencies"],
                                   each(c.get("rates", [0.0]), n)):
            put(x, (i, j), (i, j), [[-Decimal(rate), Decimal(w)],
                                    [-Decimal(w), -Decimal(rate)]])
    elif c["kind"] == "real_jordan":
        m = c["size"]
        for i in range(dim):
            x[i][i] = -Decimal(each(c["rates"], dim // m)[i // m])
            if i % m < m - 1:
                x[i][i + 1] = 1 / Decimal(c["tau"])
    elif c["kind"] == "complex_jordan":
        m = c["size"]
        for f, w in enumerate(c["frequencies"]):
            rate = Decimal(each(c["rates"], len(c["frequencies"]))[f])
            for i in range(2 * m * f, 2 * m * (f + 1), 2):
                put(x, (i, i + 1), (i, i + 1), [[-rate, Decimal(w)],
                                                [-Decimal(w), -rate]])
                if i + 2 < 2 * m * (f + 1):
                    x[i][i + 2] = x[i + 1][i + 3] = Decimal(c["eta"])
    return x


def block_cases():
    lags = [0.0, 1e-9, 0.125, 1.0, 17.5, 1e3]
    yield dict(kind="rotation", dim=4, layout="half", frequencies=[1.0, -0.37])
    yield dict(kind="component_decay", dim=3, rates=[0.0, 0.5, 100.0])
    for layout in ("half", "interleaved"):
        yield dict(kind="damped_rotation", dim=4, layout=layout,
                   frequencies=[2.0, 0.03], rates=[0.25, 0.0])
    for m in (2, 3, 4):
        for rate in (0.0, 0.3):
            yield dict(kind="real_jordan", dim=2 * m, size=m, rates=[rate],
                       tau=0.75)
    for m in (2, 3, 4):
        yield dict(kind="complex_jordan", dim=2 * m, size=m, frequencies=[1.5],
                   rates=[0.125], eta=0.1)
    yield dict(kind="complex_jordan", dim=8, size=2, frequencies=[1.0, 0.25],
               rates=[0.0, 0.5], eta=-2.0)
    yield dict(kind="skew_rank2", dim=4, a=[1.0, 2.0, -0.5, 0.0],
               b=[0.5, 0.25, 3.0, 1.0], frequency=0.375)
    yield dict(kind="skew_rank2", dim=3, a=[1.0, 2.0, -0.5],
               b=[1.0, 2.0, -0.5 + 2**-20], frequency=1.0)
    dense = [
        ("stiff", [-1, 0, 1000, -1000]),
        ("markov", [-1, 1, 0, 0]),
        ("jordan_nearly", [-1, 1, -2.0**-40, -1]),
        ("rotation_nearly_defective", [-0.1, 1e6, -1e-6, -0.1]),
        ("cascade", [-1e-3, 1e3, 0, 0, -1e3, 1, 0, 0, -1]),
        ("clustered", [-1, 5, 2, 0, -1 - 2.0**-30, 3, 0, 0, -1 + 2.0**-29]),
        ("full", [-3, 1, 0.5, -2, 2, -4, 0.25, 1, -1, 3, -6, 0.5, 1, 1, 2, -5]),
        ("pairs", [-0.5, 2, 1, 0, -2, -0.5, 0, 1, 0, 0, -0.5, 2.0000001, 0, 0,
                   -2, -0.5]),
    ]
    for name, matrix in dense:
        yield dict(kind="dense", dim=math.isqrt(len(matrix)), name=name,
                   matrix=[float(x) for x in matrix], lags=lags + [3000.0, 1e6])
    for c in list(block_cases_for_average()):
        yield dict(c, averaged=1, lags=[0.0, 1e-9, 1e-3, 0.125, 1.0, 17.5, 1e3])


def block_cases_for_average():
    yield dict(kind="rotation", dim=2, layout="half", frequencies=[1.25])
    yield dict(kind="component_decay", dim=2, rates=[0.0, 0.5])
    yield dict(kind="damped_rotation", dim=2, layout="half", frequencies=[2.0],
               rates=[0.25])
    yield dict(kind="real_jordan", dim=4, size=4, rates=[0.3], tau=0.75)
    yield dict(kind="real_jordan", dim=3, size=3, rates=[0.0], tau=1.0)
    yield dict(kind="complex_jordan", dim=6, size=3, frequencies=[1.5],
               rates=[0.125], eta=0.5)
    yield dict(kind="dense", dim=3, matrix=[-1.0, 5.0, 2.0, 0.0, -1 - 2.0**-30,
                                            3.0, 0.0, 0.0, -1 + 2.0**-29])


def generators_text():
    out = Writer()
    for c in block_cases():
        out.line("kind", c["kind"])
        for key, value in c.items():
            if key not in ("kind", "lags"):
                out.line(key, *(value if isinstance(value, list) else [value]))
        for lag in c.get("lags", [0.0, 1e-9, 0.125, 1.0, 17.5, 1e3]):
            averaged = c.get("averaged", 0)
            a = exp_of(generator(c), lag, averaged) \
                if averaged or c["kind"] == "dense" else closed_form(c, lag)
            # Below this a double is 0 in all that matters.
            flat = [x if abs(x) > Decimal(10)**-300 else 0
                    for row in a for x in row]
            out.line("exp", float(lag), *flat)
        out.end()
    return out.result()


# ---- families -------------------------------------------------------------------


def skew(n, lower):
    a = [[Decimal(0)] * n for _ in range(n)]
    entries = iter(lower)
    for i in range(n):
        for j in range(i):
            a[i][j] = Decimal(next(entries))
            a[j][i] = -a[i][j]
    return a


def solved(a, b):
    """a^-1 b by Gauss's elimination."""
    n = len(a)
    rows = [list(p) + list(q) for p, q in zip(a, b)]
    for c in range(n):
        pivot = max(range(c, n), key=lambda r: abs(rows[r][c]))
        rows[c], rows[pivot] = rows[pivot], rows[c]
        rows[c] = [x / rows[c][c] for x in rows[c]]
        for r in range(n):
            if r != c:
                rows[r] = [x - rows[r][c] * y for x, y in zip(rows[r], rows[c])]
    return [row[n:] for row in rows]


def family(c, at):
    n, kind = c["dim"], c["family"]
    if kind == "liere":
        x, y = (Decimal(e) for e in at)
        half = len(c["lower"]) // 2
        first, second = skew(n, c["lower"][:half]), skew(n, c["lower"][half:])
        return series(add(scaled(first, x), second, y))[0]
    lag, d = Fraction(at[0]), Decimal(at[0])
    if kind == "cayley":
        # P = (I - S)(I + S)^-1; the two factors commute.
        s = skew(n, c["lower"])
        p = solved(add(identity(n), s), add(identity(n), s, -1))
        turn = closed_form(dict(c, kind="rotation", layout="interleaved"), at[0])
        return product(product(p, turn), [list(column) for column in zip(*p)])
    a = identity(n)
    for i, pair in enumerate(pairs("interleaved", n // 2)):
        if kind == "xpos":
            # ((2i + gamma n) / ((1 + gamma) n))^(D / scale_base)
            gamma = Decimal(c["gamma"])
            zeta = (2 * i + gamma * n) / ((1 + gamma) * n)
            shrink = power(zeta, d / Decimal(c["scale_base"])) if d else Decimal(1)
            angle = power(10000, Decimal(-2 * i) / n)
        else:
            # gamma_h = 1 - 2^(-5-h), angles 10000^(-i/(n/2 - 1)), ends included
            shrink = power(1 - Decimal(2)**(-5 - c["head"]), d) if d else Decimal(1)
            angle = power(10000, -Decimal(i) / (n // 2 - 1))
        put(a, pair, pair, scaled(rotation(Fraction(angle), lag), shrink))
    return a


def family_cases():
    lags = [[0.0], [1e-9], [0.125], [1.0], [17.5], [1e3]]
    yield dict(family="xpos", dim=8, gamma=0.5, scale_base=512.0, at=lags)
    yield dict(family="xpos", dim=4, gamma=0.25, scale_base=1.0, at=lags)
    for head in (0, 3):
        yield dict(family="retnet", dim=8, head=head, at=lags)
    lower = [0.3, -0.2, 0.5, 0.1, 0.4, -0.6]
    yield dict(family="cayley", dim=4, lower=lower, frequencies=[1.0, 0.0625],
               at=lags)
    places = [[0.0, 0.0], [1e-9, 2e-9], [1.0, 0.0], [0.0, 1.0], [-1.5, 2.25],
              [40.0, -31.0], [1e3, 517.25]]
    for n in (3, 4, 7):
        count = n * (n - 1)
        yield dict(family="liere", dim=n, at=places,
                   lower=[((i * 37 + n * 11) % 64 - 31) / 32 for i in range(count)])


def families_text():
    out = Writer()
    for c in family_cases():
        out.line("family", c["family"])
        for key, value in c.items():
            if key not in ("family", "at"):
                out.line(key, *(value if isinstance(value, list) else [value]))
        for at in c["at"]:
            out.line("at", *at, *(x if abs(x) > Decimal(10)**-300 else 0
                                  for row in family(c, at) for x in row))
        out.end()
    return out.result()


FILES = {"rotary.txt": rotary_text, "generators.txt": generators_text,
         "families.txt": families_text}


if __name__ == "__main__":
    write_or_check(FILES, __doc__)
