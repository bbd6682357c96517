"""Times of NumPy, pandas, Polars and Arrow as exact ticks of the wire.

Whatever holds an instant becomes int64 nanoseconds since 1970 UTC, so that the
same instants give the same bytes: datetime64[s], [ms], [us] and [ns], any time
zone, or integers of a stated unit. Instants beyond 1677 or 2262 go as the finest
coarser unit that holds both axes.

  zone-aware values   their instant
  NumPy datetime64    has no zone and counts from 1970 UTC: taken so
  zone-less values of pandas, Polars, Arrow, datetime.datetime; dates
                      refused unless `naive` names the zone they are meant in
  integers            refused unless `time_unit` says what they count
  floats              seconds or positions by `time_unit`, sent as binary64
  NaT, null, NaN      refused with the first position and how many there are
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from attnd.arrays import Array
from attnd.durations import nanoseconds
from attnd.v1 import tensor_pb2

# Nanoseconds of one tick, finest first; None: positions.
_TICKS = {"ns": 1, "us": 1000, "ms": 1000**2, "s": 1000**3}
_WIRE_UNITS = {
    "ns": tensor_pb2.TICK_UNIT_NANOSECONDS,
    "us": tensor_pb2.TICK_UNIT_MICROSECONDS,
    "ms": tensor_pb2.TICK_UNIT_MILLISECONDS,
    "s": tensor_pb2.TICK_UNIT_SECONDS,
    "positions": tensor_pb2.TICK_UNIT_POSITIONS,
}
_INT64 = np.iinfo(np.int64)


@dataclass(frozen=True, eq=False)
class Times:
    """Times of one axis: int64 ticks or float64, and the unit they count."""

    values: Array
    # "ns", "us", "ms", "s" or "positions".
    unit: str

    @property
    def is_float(self) -> bool:
        return self.values.dtype.kind == "f"

    @property
    def dtype_text(self) -> str:
        """The NumPy type in which people see such times."""
        if self.is_float:
            return "<f8"
        return "<i8" if self.unit == "positions" else f"<M8[{self.unit}]"

    def in_unit(self, unit: str, name: str) -> "Times":
        """The same times counted in another unit, exactly."""
        if unit == self.unit:
            return self
        own, other = _TICKS[self.unit], _TICKS[unit]
        if own >= other:
            return Times(self.values * (own // other), unit)
        whole, rest = np.divmod(self.values, other // own)
        if rest.any():
            raise ValueError(
                f"{name}: {self.unit} do not fit the {unit} that the other axis needs"
            )
        return Times(whole, unit)

    def fits(self, unit: str) -> bool:
        """Whether no value leaves int64 when counted in `unit`."""
        factor = _TICKS[self.unit] // _TICKS[unit]
        if factor <= 1 or self.values.size == 0:
            return True
        low, high = int(self.values.min()), int(self.values.max())
        return _INT64.min <= low * factor and high * factor <= _INT64.max

    def header(self, coordinates: int) -> bytes:
        """The encoded axis without its data."""
        return _header(self.is_float, self.values.shape, coordinates, self.unit)


@lru_cache(maxsize=256)
def _header(
    is_float: bool, shape: Tuple[int, ...], coordinates: int, unit: str
) -> bytes:
    kinds = tensor_pb2.TIME_TYPE_INT64_TICKS, tensor_pb2.TIME_TYPE_F64
    axis = tensor_pb2.TimeAxis(
        type=kinds[is_float],
        shape=shape,
        coordinates=coordinates,
        units=[_WIRE_UNITS[unit]],
    )
    encoded: bytes = axis.SerializeToString()
    return encoded


def common(axes: Sequence[Times], names: Sequence[str]) -> List[Times]:
    """Several axes in one representation and unit."""
    first = axes[0]
    for other, name in zip(axes[1:], names[1:]):
        if first.is_float != other.is_float or (first.unit == "positions") != (
            other.unit == "positions"
        ):
            raise ValueError(
                f"{names[0]} is {_kind(first)}, {name} {_kind(other)}: "
                "both must be of one kind"
            )
    if first.is_float or first.unit == "positions":
        return list(axes)
    unit = next(unit for unit in _TICKS if all(axis.fits(unit) for axis in axes))
    return [axis.in_unit(unit, name) for axis, name in zip(axes, names)]


def _kind(times: Times) -> str:
    return ("float " if times.is_float else "integer ") + (
        "positions" if times.unit == "positions" else "time"
    )


def window_ticks(length: Any, times: Optional[Times], name: str) -> Any:
    """A length of time in ticks (int) or in float seconds of an axis.

    Positions, and requests without times, take a plain number.
    """
    if times is None or times.unit == "positions":
        if isinstance(length, (bool, str)) or not isinstance(
            length, (int, float, np.integer, np.floating)
        ):
            raise ValueError(f"{name}: {length!r}, expected a number of positions")
        if times is not None and times.is_float:
            return float(length)
        if length != int(length):
            raise ValueError(f"{name}: {length!r}, expected a whole number")
        return int(length)
    exact = nanoseconds(length, name)
    if times.is_float:
        return float(exact / _TICKS["s"])
    ticks = exact / _TICKS[times.unit]
    if ticks.denominator != 1:
        raise ValueError(f"{name}: {length!r} is no whole number of {times.unit}")
    if ticks > _INT64.max:
        raise ValueError(f"{name}: {length!r} is beyond int64 {times.unit}")
    return int(ticks)


def times(
    values: Any,
    name: str,
    *,
    time_unit: Optional[str] = None,
    naive: Optional[str] = None,
) -> Times:
    """Reads the times of one axis; the module's text says what becomes what.

    `time_unit` is "ns", "us", "ms", "s" or "positions" and says what plain
    numbers count; `naive` is a zone ("UTC", "Europe/Berlin"). ValueError or
    TypeError name the argument and the first value that is wrong.
    """
    if time_unit is not None and time_unit not in _WIRE_UNITS:
        raise ValueError(
            f"time_unit: {time_unit!r}, expected ns, us, ms, s or positions"
        )
    library = type(values).__module__.split(".")[0]
    if library == "pandas":
        return _from_pandas(values, name, time_unit, naive)
    if library == "polars":
        values = values.to_arrow()
        library = "pyarrow"
    if library == "pyarrow":
        return _from_arrow(values, name, time_unit, naive)
    array = np.asarray(values)
    if array.dtype == object:
        return _from_objects(array, name, naive)
    return _from_numpy(array, name, time_unit)


def _from_numpy(array: Array, name: str, time_unit: Optional[str]) -> Times:
    kind = array.dtype.kind
    if kind == "M":
        return _from_datetime64(array, name)
    if array.size == 0 and time_unit is None and not kind == "f":
        return Times(array.astype(np.int64), "ns")
    if kind not in "iuf":
        raise TypeError(f"{name}: elements of type {array.dtype} are no times")
    if time_unit is None:
        raise ValueError(
            f"{name}: plain numbers; say what they count with time_unit="
            '"ns", "us", "ms", "s" or "positions"'
        )
    if kind == "f":
        return _from_floats(array, name, time_unit)
    if kind == "u" and array.size and int(array.max()) > _INT64.max:
        raise ValueError(f"{name}: {int(array.max())} is beyond int64")
    return Times(np.ascontiguousarray(array, dtype="<i8"), time_unit)


def _from_floats(array: Array, name: str, time_unit: str) -> Times:
    if time_unit not in ("s", "positions"):
        raise ValueError(
            f'{name}: floats with time_unit="{time_unit}"; floats count "s" or '
            '"positions", finer units are integers'
        )
    refuse(~np.isfinite(array), name, "no finite time")
    return Times(np.ascontiguousarray(array, dtype="<f8"), time_unit)


def _from_datetime64(array: Array, name: str) -> Times:
    refuse(np.isnat(array), name, "NaT")
    unit, step = np.datetime_data(array.dtype)
    if unit in ("ps", "fs", "as", "generic"):
        raise ValueError(f"{name}: datetime64[{unit}] is finer than the wire's ns")
    if unit not in _TICKS or step != 1:
        # Days, hours, months: whole seconds.
        wanted = unit if unit in _TICKS else "s"
        array, unit = array.astype(f"datetime64[{wanted}]"), wanted
    # Native order first: a view knows nothing of bytes swapped inside.
    native = np.ascontiguousarray(array, dtype=f"<M8[{unit}]")
    return Times(native.view("<i8"), unit)


def _from_pandas(
    values: Any, name: str, time_unit: Optional[str], naive: Optional[str]
) -> Times:
    import pandas as pd

    dtype = str(getattr(values, "dtype", type(values).__name__))
    if isinstance(values, pd.Timestamp):
        values = [values]
        dtype = "object"
    if dtype == "object":
        return _from_objects(np.asarray(values, dtype=object), name, naive)
    if dtype.startswith(("period", "timedelta", "interval", "DataFrame")):
        raise TypeError(f"{name}: {dtype} is no instant; convert it to timestamps")
    if "[pyarrow]" in dtype:
        import pyarrow

        return _from_arrow(pyarrow.array(values), name, time_unit, naive)
    if not dtype.startswith("datetime64"):
        refuse(np.asarray(pd.isna(values)), name, "missing")
        return _from_numpy(np.asarray(values), name, time_unit)
    refuse(np.asarray(pd.isna(values)), name, "NaT")
    index = pd.DatetimeIndex(values)
    if index.tz is None:
        index = _localize(index, _zone(naive, name), name)
    return _from_datetime64(np.asarray(index.tz_convert(None)), name)


def _from_arrow(
    values: Any, name: str, time_unit: Optional[str], naive: Optional[str]
) -> Times:
    import pyarrow as pa

    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.ChunkedArray):  # no chunk at all
        values = pa.array([], type=values.type)
    if values.null_count:
        refuse(values.is_null().to_numpy(zero_copy_only=False), name, "null")
    kind = values.type
    if pa.types.is_date(kind):
        kind = pa.timestamp("s")
        values = values.cast(kind)
    if not pa.types.is_timestamp(kind):
        return _from_numpy(values.to_numpy(zero_copy_only=False), name, time_unit)
    ticks = values.cast(pa.int64()).to_numpy(zero_copy_only=False)
    if kind.tz is None:
        return _localized(ticks.view(f"<M8[{kind.unit}]"), name, naive)
    return Times(np.ascontiguousarray(ticks, dtype="<i8"), kind.unit)


def _from_objects(array: Array, name: str, naive: Optional[str]) -> Times:
    """Lists of datetime.datetime or pandas.Timestamp."""
    flat: Any = array.reshape(-1)
    wrong = np.fromiter(
        (not isinstance(value, datetime.datetime) for value in flat), bool, flat.size
    )
    refuse(wrong.reshape(array.shape), name, "no datetime")
    # NaT of pandas is a datetime that does not equal itself.
    missing = np.fromiter((value != value for value in flat), bool, flat.size)
    refuse(missing.reshape(array.shape), name, "NaT")
    zoned = {value.tzinfo is not None for value in flat}
    if zoned == {True, False}:
        raise ValueError(f"{name}: datetimes with and without a zone are mixed")
    if zoned == {True}:
        utc = datetime.timezone.utc
        flat = [value.astimezone(utc).replace(tzinfo=None) for value in flat]
    if any(getattr(value, "nanosecond", 0) for value in flat):
        # NumPy would read the microseconds of a pandas.Timestamp only.
        flat = [value.to_datetime64() for value in flat]
    values = np.array(flat, dtype="datetime64").reshape(array.shape)
    if zoned == {False}:
        return _localized(values, name, naive)
    return _from_datetime64(values, name)


def _localized(array: Array, name: str, naive: Optional[str]) -> Times:
    """Zone-less instants as those of the zone that `naive` names."""
    zone = _zone(naive, name)
    if zone.upper() == "UTC":
        return _from_datetime64(array, name)
    import pandas as pd

    index = _localize(pd.DatetimeIndex(array.reshape(-1)), zone, name)
    return _from_datetime64(
        np.asarray(index.tz_convert(None)).reshape(array.shape), name
    )


def _localize(index: Any, zone: str, name: str) -> Any:
    try:
        return index.tz_localize(zone)
    except Exception as error:  # of pytz, zoneinfo or pandas, by version
        raise ValueError(f"{name}: in {zone}: {error}") from error


def _zone(naive: Optional[str], name: str) -> str:
    if naive is None:
        raise ValueError(
            f"{name}: times without a zone; give them one (tz_localize) or say which "
            'they are meant in, for example naive="UTC"'
        )
    return naive


def refuse(wrong: Array, name: str, what: str) -> None:
    """ValueError with the first marked position and how many there are."""
    count = int(np.count_nonzero(wrong))
    if count:
        first = np.unravel_index(int(np.argmax(wrong)), np.shape(wrong))
        place = ", ".join(str(int(index)) for index in first)
        raise ValueError(f"{name}[{place}]: {what} ({count} of {np.size(wrong)})")
