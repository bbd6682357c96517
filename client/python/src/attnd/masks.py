"""What a request says of the keys that its queries see."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from attnd.times import Times, times, window_ticks
from attnd.v1 import attention_pb2


def _both_sides(window: Any, causal: bool) -> Tuple[Any, Any]:
    if isinstance(window, (tuple, list)):
        past, future = window
        return past, future
    return window, None if causal else window


def set_window(
    mask: attention_pb2.Mask, window: Any, causal: bool, axis: Optional[Times]
) -> None:
    past, future = _both_sides(window, causal)
    suffix = "_time" if axis is not None and axis.is_float else "_ticks"
    for side, length in (("past", past), ("future", future)):
        if length is not None:
            ticks = window_ticks(length, axis, "window")
            if ticks < 0:
                raise ValueError(f"window: {length!r} is negative")
            setattr(mask, side + suffix, ticks)


def set_window_keys(mask: attention_pb2.Mask, window: Any, causal: bool) -> None:
    past, future = _both_sides(window, causal)
    if past is not None:
        mask.past_keys = past
    if future is not None:
        mask.future_keys = future


def set_ranges(
    mask: attention_pb2.Mask,
    ranges: Sequence[Tuple[Any, Any]],
    axis: Optional[Times],
    time_unit: Optional[str],
    naive: Optional[str],
) -> None:
    if axis is None:
        raise ValueError("key_ranges: need query_time and key_time")
    begin, end = (
        times(
            [pair[side] for pair in ranges],
            "key_ranges",
            time_unit=time_unit,
            naive=naive,
        )
        for side in (0, 1)
    )
    for first, last in zip(
        begin.in_unit(axis.unit, "key_ranges").values.tolist(),
        end.in_unit(axis.unit, "key_ranges").values.tolist(),
    ):
        if axis.is_float:
            mask.key_ranges.add(begin_time=first, end_time=last)
        else:
            mask.key_ranges.add(begin_ticks=first, end_ticks=last)


def set_rows(mask: attention_pb2.Mask, prefix: List[int], **rows: Any) -> None:
    if prefix != [0]:
        mask.prefix = prefix[0]
    for name, counts in rows.items():
        if counts is not None:
            array = np.asarray(counts)
            if array.size and array.dtype.kind not in "iu":
                raise TypeError(f"{name}: elements of type {array.dtype}, expected int")
            getattr(mask, name).extend(array.astype(np.int64).tolist())
