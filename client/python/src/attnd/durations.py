"""Lengths of time as people write them: "36h", timedelta, np.timedelta64."""

from __future__ import annotations

import datetime
import re
from fractions import Fraction
from typing import Union

import numpy as np

Duration = Union[str, datetime.timedelta, np.timedelta64]

# The units of `time_unit` in the server's configuration; a day is 86400 s.
NANOSECONDS = {
    "ns": 1,
    "us": 1000,
    "ms": 1000**2,
    "s": 1000**3,
    "min": 60 * 1000**3,
    "h": 3600 * 1000**3,
    "d": 86400 * 1000**3,
    "w": 7 * 86400 * 1000**3,
}


def nanoseconds(length: Duration, name: str) -> Fraction:
    """The exact nanoseconds of a length of time.

    `length` is text with one of the units above ("250ms", "7d", "365.25d"), a
    datetime.timedelta (pandas.Timedelta is one) or np.timedelta64. ValueError
    names the argument `name` when it is anything else: a bare number has no unit.
    """
    if isinstance(length, str):
        match = re.fullmatch(r"\s*([+-]?(?:\d+\.?\d*|\.\d+))\s*([a-z]+)\s*", length)
        if match and match[2] in NANOSECONDS:
            return Fraction(match[1]) * NANOSECONDS[match[2]]
    elif isinstance(length, np.timedelta64):
        if np.isnat(length):
            raise ValueError(f"{name}: NaT is no length of time")
        unit = np.datetime_data(length.dtype)[0]
        if unit not in ("Y", "M", "generic"):
            return _from_numpy(length)
    elif isinstance(length, datetime.timedelta):
        whole = Fraction(length // datetime.timedelta(microseconds=1)) * 1000
        return whole + getattr(length, "nanoseconds", 0)
    raise ValueError(
        f"{name}: {length!r}, expected a length of time with its unit, for example "
        '"36h" (ns us ms s min h d w), a timedelta or a np.timedelta64'
    )


def _from_numpy(length: np.timedelta64) -> Fraction:
    unit, step = np.datetime_data(length.dtype)
    count = int(length.astype(np.int64)) * step
    small = {"ps": 1000, "fs": 1000**2, "as": 1000**3}
    if unit in small:
        return Fraction(count, small[unit])
    names = {"m": "min", "D": "d", "W": "w"}
    return Fraction(count * NANOSECONDS[names.get(unit, unit)])
