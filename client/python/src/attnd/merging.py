"""One state of the linear kind from those of several segments of a stream."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Optional, Sequence, Union

import numpy as np

from attnd.client import Client
from attnd.linear import Linear, LinearState
from attnd.v1 import attention_pb2


def merge_states(
    client: Client,
    states: Sequence[LinearState],
    *,
    linear: Optional[Linear] = None,
    time_unit: Optional[str] = None,
    **options: Any,
) -> LinearState:
    """The state of all keys that the states hold, at the latest of their times.

    states     of disjoint segments of one stream, in any order, computed wherever
               it suited ("event" rule only)
    linear     as the segments had it: normaliser, feature_map
    time_unit  of the segments' integer times ("ns", "us", ...)
    options    as of attnd.request, what decides the encoding: encoding, two_sided

    A request without rows: workers of the server add the states up.
    """
    if not states:
        raise ValueError("states: expected at least one")
    first = attention_pb2.LinearState.FromString(states[0].serialized)
    batch, heads, dim, value_dim = first.state.shape
    items = max(batch, 1)
    coordinates = max(len(first.reference_ticks), len(first.reference_time)) // items
    dtype: Union[type[np.int64], type[np.float64]] = (
        np.float64 if first.reference_time else np.int64
    )
    shape = (0,) if coordinates <= 1 else (0, coordinates)
    times = np.zeros(shape, dtype)
    if dtype is np.int64:
        options["time_unit"] = time_unit
    nothing = np.zeros((batch, heads, 0, dim), np.float32)
    answer = client.attend(
        nothing,
        nothing,
        np.zeros((batch, heads, 0, value_dim), np.float32),
        query_time=times,
        key_time=times,
        linear=replace(
            linear or Linear(),
            initial_state=None,
            merge_states=tuple(states),
            return_state=True,
        ),
        **options,
    )
    assert answer.final_state is not None
    return answer.final_state
