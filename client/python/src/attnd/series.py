"""Attention over pandas series: filling gaps, scoring anomalies.

Weights come from time alone. All queries and keys are one vector that holds
sqrt(w) in the first channel of each timed block of the encoding, so with scale 1
the logit of a pair at lag D is

    sum over blocks of  w * A(D)[first channel, first channel]   +   biases(D),

w cos(2 pi D / period) for a rotation plane, w exp(-rate D) for a decay. What is
averaged is what a polynomial trend leaves over; several encodings are used one
after the other, each on what those before it leave over (Tukey's twicing).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    List,
    Optional,
    Sequence,
    Tuple,
    Union,
)

import numpy as np

from attnd.arrays import Array
from attnd.durations import Duration, nanoseconds
from attnd.request import request
from attnd.times import times

if TYPE_CHECKING:
    import pandas as pd

    from attnd.client import Client

# Of a normal distribution: standard deviation over median absolute deviation.
MAD_TO_SIGMA = 1.4826022185056018

Encodings = Union[str, Sequence[str]]
Weights = Union[None, Sequence[float], Sequence[Optional[Sequence[float]]]]


@dataclass(frozen=True, eq=False)
class _Pass:
    """One encoding and the vector that all its queries and keys are."""

    encoding: str
    vector: Array


def interpolate(
    client: "Client",
    series: Any,
    at: Any = None,
    *,
    encoding: Encodings,
    weights: Weights = None,
    trend: int = 2,
    causal: bool = False,
    window: Optional[Duration] = None,
    naive: Optional[str] = None,
) -> Any:
    """See Client.interpolate()."""
    import pandas as pd

    frame = _frame(series)
    index_ns = _nanoseconds(frame.index, "series.index", naive)
    wanted = _wanted(frame.index, at)
    wanted_ns = _nanoseconds(wanted, "at", naive)
    passes = _passes(client, encoding, weights)
    values = frame.to_numpy(np.float64)
    level, left_over = _without_trend(index_ns, values, trend)
    estimate = level(wanted_ns)
    for each in passes:
        # At the wanted times, and at the known ones for the next pass.
        at_both = _average(
            client,
            each,
            index_ns,
            left_over,
            np.concatenate([wanted_ns, index_ns]),
            causal=causal,
            window=window,
        )
        estimate = estimate + at_both[: len(wanted_ns)]
        left_over = left_over - at_both[len(wanted_ns) :]
    out = pd.DataFrame(estimate, index=wanted, columns=frame.columns)
    if at is None:
        out = frame.where(frame.notna(), out)
    return _like(series, out)


def leave_one_out(
    client: "Client",
    series: Any,
    *,
    encoding: Encodings,
    weights: Weights = None,
    trend: int = 2,
    causal: bool = False,
    window: Optional[Duration] = None,
    naive: Optional[str] = None,
    hide: Any = None,
) -> Any:
    """See Client.leave_one_out()."""
    import pandas as pd

    frame = _frame(series)
    index_ns = _nanoseconds(frame.index, "series.index", naive)
    values: Array = frame.to_numpy(np.float64)
    if hide is not None:
        values = np.where(_frame(hide).to_numpy(bool), np.nan, values)
    level, left_over = _without_trend(index_ns, values, trend)
    estimate = level(index_ns)
    for each in _passes(client, encoding, weights):
        average = _average_of_others(client, each, index_ns, left_over, causal, window)
        estimate = estimate + average
        left_over = left_over - average
    out = pd.DataFrame(estimate, index=frame.index, columns=frame.columns)
    return _like(series, out)


def anomaly_scores(
    client: "Client",
    series: Any,
    *,
    encoding: Encodings,
    weights: Weights = None,
    trend: int = 2,
    causal: bool = False,
    window: Optional[Duration] = None,
    naive: Optional[str] = None,
    scale_samples: int = 101,
    hide: Any = None,
) -> Any:
    """See Client.anomaly_scores()."""
    estimate = leave_one_out(
        client,
        series,
        encoding=encoding,
        weights=weights,
        trend=trend,
        causal=causal,
        window=window,
        naive=naive,
        hide=hide,
    )
    residual = _frame(series).astype(np.float64) - _frame(estimate)
    scale = residual.apply(lambda column: _running_scale(column, scale_samples))
    return _like(series, residual / scale)


def _running_scale(residual: "pd.Series", samples: int) -> "pd.Series":
    """1.4826 times the running median absolute deviation of a column."""
    known = residual.dropna()
    window: Dict[str, Any] = dict(
        window=samples, center=True, min_periods=min(5, len(known))
    )
    deviation = (known - known.rolling(**window).median()).abs()
    running = deviation.rolling(**window).median()
    # Where half of the samples are alike the deviation is 0; no sample may then
    # count as infinitely strange.
    floor = 0.1 * deviation.median()
    running = running.clip(lower=floor if floor > 0 else np.finfo(float).tiny)
    scale: "pd.Series" = (MAD_TO_SIGMA * running).reindex(residual.index)
    return scale


def _frame(series: Any) -> "pd.DataFrame":
    import pandas as pd

    if isinstance(series, pd.Series):
        return series.to_frame()
    if isinstance(series, pd.DataFrame):
        return series
    raise TypeError(
        f"series: {type(series).__name__}, expected a pandas Series or DataFrame"
    )


def _like(series: Any, frame: "pd.DataFrame") -> Any:
    import pandas as pd

    if isinstance(series, pd.DataFrame):
        return frame
    return frame.iloc[:, 0].rename(series.name)


def _wanted(index: Any, at: Any) -> Any:
    import pandas as pd

    if at is None:
        return index
    if isinstance(at, (str, pd.DateOffset)) and not isinstance(at, pd.Timestamp):
        return pd.date_range(index.min(), index.max(), freq=at)
    return pd.DatetimeIndex(at)


def _nanoseconds(index: Any, name: str, naive: Optional[str]) -> Array:
    return times(index, name, naive=naive).in_unit("ns", name).values


def _without_trend(
    index_ns: Array, values: Array, degree: int
) -> Tuple[Callable[[Array], Array], Array]:
    """Trends of the columns as a function of time, and what they leave over."""
    first, last = int(index_ns.min()), int(index_ns.max())

    def scaled(ns: Array) -> Array:
        return 2.0 * (ns - first) / max(last - first, 1) - 1.0

    fit_to: Any = np.polynomial.Chebyshev.fit
    fits: List[Any] = []
    for column in values.T:
        known = np.isfinite(column)
        fits.append(
            fit_to(scaled(index_ns[known]), column[known], degree, domain=[-1, 1])
            if known.sum() > degree >= 0
            else None
        )

    def level(ns: Array) -> Array:
        x = scaled(ns)
        columns = [np.zeros(len(x)) if fit is None else fit(x) for fit in fits]
        return np.stack(columns, axis=1)

    return level, values - level(index_ns)


def _passes(client: "Client", encoding: Encodings, weights: Weights) -> List[_Pass]:
    names = [encoding] if isinstance(encoding, str) else list(encoding)
    if weights is None or isinstance(encoding, str):
        given: List[Any] = [weights] + [None] * (len(names) - 1)
    else:
        given = list(weights)
    if len(given) != len(names):
        raise ValueError(f"weights: {len(given)}, but {len(names)} encodings")
    return [
        _Pass(name, _constant_vector(client, name, each))
        for name, each in zip(names, given)
    ]


def _constant_vector(
    client: "Client", name: str, weights: Optional[Sequence[float]]
) -> Array:
    (encoding,) = client.list_encodings(name)
    blocks = [
        block
        for block in (encoding.generators[0].blocks if encoding.generators else ())
        if block.kind != "identity" and block.channels
    ]
    chosen = (
        [8.0 * 0.5**i for i in range(len(blocks))] if weights is None else weights
    )
    if len(chosen) != len(blocks):
        raise ValueError(
            f"weights: {len(chosen)}, but encoding {name!r} has {len(blocks)} blocks"
        )
    vector = np.zeros(encoding.head_dim, np.float32)
    for block, weight in zip(blocks, chosen):
        if not 0 <= weight < np.inf:
            raise ValueError(f"weights: {weight!r}, expected a finite number >= 0")
        vector[block.channels[0]] = np.sqrt(weight)
    return vector


def _average(
    client: "Client",
    each: _Pass,
    index_ns: Array,
    values: Array,
    wanted_ns: Array,
    **mask: Any,
) -> Array:
    """Means of the known values at wanted times; a batch item for each column."""
    known = np.isfinite(values)
    columns = values.shape[1]
    answer = client.attend(
        _rows(each.vector, columns, len(wanted_ns)),
        _rows(each.vector, columns, len(index_ns)),
        _column_items(values, known),
        query_time=wanted_ns,
        key_time=index_ns,
        time_unit="ns",
        encoding=each.encoding,
        key_valid=known.T,
        scale=1.0,
        outputs=("output", "lse"),
        **mask,
    )
    assert answer.lse is not None  # asked for
    seen = np.where(np.isneginf(answer.lse[:, 0]), np.nan, answer.output[:, 0, :, 0])
    return seen.T.astype(np.float64)


def _average_of_others(
    client: "Client",
    each: _Pass,
    index_ns: Array,
    values: Array,
    causal: bool,
    window: Optional[Duration],
) -> Array:
    """Means of the known values at other times than the sample's own.

    The past by strict causality; the future the same on a clock that runs
    backwards; both merged by their lse. All in one call.
    """
    known = np.isfinite(values)
    columns = values.shape[1]
    clocks = [index_ns]
    if not causal:
        clocks.append(int(index_ns.max()) - index_ns + int(index_ns.min()))
    # Items: the columns forwards, then the columns backwards.
    stamps = np.repeat(np.stack(clocks), columns, axis=0)
    items = len(stamps)
    answer = client.attend(
        _rows(each.vector, items, len(index_ns)),
        _rows(each.vector, items, len(index_ns)),
        np.tile(_column_items(values, known), (len(clocks), 1, 1, 1)),
        query_time=stamps,
        key_time=stamps,
        time_unit="ns",
        encoding=each.encoding,
        causal=True,
        strict=True,
        window=window,
        key_valid=np.tile(known.T, (len(clocks), 1)),
        scale=1.0,
        outputs=("output", "lse"),
    )
    assert answer.lse is not None  # asked for
    shape = (len(clocks), columns, len(index_ns))
    lse = answer.lse[:, 0].astype(np.float64).reshape(shape)
    means = answer.output[:, 0, :, 0].astype(np.float64).reshape(shape)
    top = lse.max(axis=0)
    shares = np.exp(lse - np.where(np.isneginf(top), 0.0, top))
    with np.errstate(invalid="ignore"):
        average: Array = (shares * means).sum(axis=0) / shares.sum(axis=0)
    return average.T


def _rows(vector: Array, items: int, rows: int) -> Array:
    return np.broadcast_to(vector, (items, 1, rows, vector.size))


def _column_items(values: Array, known: Array) -> Array:
    filled = np.where(known, values, 0.0).astype(np.float32)
    return np.ascontiguousarray(filled.T)[:, None, :, None]
