"""Sequences of different lengths in one call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from attnd.request import Request, request
from attnd.result import Attention, TopK
from attnd.times import Times, common, times


def ragged_request(
    queries: Sequence[Any],
    keys: Sequence[Any],
    values: Sequence[Any],
    *,
    query_times: Optional[Sequence[Any]] = None,
    key_times: Optional[Sequence[Any]] = None,
    time_unit: Optional[str] = None,
    naive: Optional[str] = None,
    **options: Any,
) -> Request:
    """One request of many sequences, padded to the longest."""
    if not len(queries) == len(keys) == len(values) or not len(queries):
        raise ValueError(
            f"{len(queries)} queries, {len(keys)} keys, {len(values)} values: "
            "expected the same number of each, at least 1"
        )
    lists = {"queries": queries, "keys": keys, "values": values}
    arrays = {
        name: [_sequence(item, f"{name}[{i}]") for i, item in enumerate(items)]
        for name, items in lists.items()
    }
    for i, (key, value) in enumerate(zip(arrays["keys"], arrays["values"])):
        if key.shape[1] != value.shape[1]:
            raise ValueError(
                f"values[{i}]: {value.shape[1]} rows, but its keys have {key.shape[1]}"
            )
    query_lengths = [item.shape[1] for item in arrays["queries"]]
    key_lengths = [item.shape[1] for item in arrays["keys"]]
    axes: Dict[str, Any] = {}
    if query_times is not None or key_times is not None:
        axes = _padded_times(
            {"query_times": query_times, "key_times": key_times},
            {"query_times": query_lengths, "key_times": key_lengths},
            time_unit,
            naive,
        )
    return request(
        *(_padded(items, name) for name, items in arrays.items()),
        query_lengths=query_lengths,
        key_lengths=key_lengths,
        **axes,
        **options,
    )


def _sequence(item: Any, name: str) -> np.ndarray:
    array = np.asarray(item)
    if array.ndim == 2:
        array = array[None]
    if array.ndim != 3:
        raise ValueError(f"{name}: shape {array.shape}, expected [L, D] or [H, L, D]")
    return array


def _padded(items: List[np.ndarray], name: str) -> np.ndarray:
    heads, _, width = items[0].shape
    for i, item in enumerate(items):
        if (item.shape[0], item.shape[2]) != (heads, width):
            raise ValueError(
                f"{name}[{i}]: {item.shape[0]} heads of width {item.shape[2]}, "
                f"but {name}[0] has {heads} of {width}"
            )
    rows = max(item.shape[1] for item in items)
    out = np.zeros((len(items), heads, rows, width), items[0].dtype)
    for place, item in zip(out, items):
        place[:, : item.shape[1]] = item
    return out


def _padded_times(
    sides: Mapping[str, Optional[Sequence[Any]]],
    lengths: Mapping[str, List[int]],
    time_unit: Optional[str],
    naive: Optional[str],
) -> Dict[str, Any]:
    names: List[str] = []
    read: List[Times] = []
    for name, items in sides.items():
        if items is None:
            raise ValueError(f"{name}: missing; give both times or none")
        if len(items) != len(lengths[name]):
            raise ValueError(f"{name}: {len(items)}, expected {len(lengths[name])}")
        for i, (item, length) in enumerate(zip(items, lengths[name])):
            names.append(f"{name}[{i}]")
            read.append(times(item, names[-1], time_unit=time_unit, naive=naive))
            if read[-1].values.shape != (length,):
                shape = read[-1].values.shape
                raise ValueError(f"{names[-1]}: shape {shape}, expected ({length},)")
    same = common(read, names)
    count = len(same) // 2
    return {
        "query_time": _stack([axis.values for axis in same[:count]]),
        "key_time": _stack([axis.values for axis in same[count:]]),
        "time_unit": same[0].unit,
    }


def _stack(rows: List[np.ndarray]) -> np.ndarray:
    out = np.zeros((len(rows), max(row.size for row in rows)), rows[0].dtype)
    for place, row in zip(out, rows):
        place[: row.size] = row
    return out


def split(
    answer: Attention, queries: Sequence[Any], keys: Sequence[Any]
) -> List[Attention]:
    """The answers of the sequences, without padding; without heads if they had
    none."""
    return [
        _item(answer, i, np.shape(query), np.shape(keys[i]))
        for i, query in enumerate(queries)
    ]


def _item(
    answer: Attention, index: int, query: Tuple[int, ...], key: Tuple[int, ...]
) -> Attention:
    rows, columns = query[-2], key[-2]

    def cut(array: Any, *bounds: int) -> Any:
        if array is None:
            return None
        one = array[(index, slice(None), *(slice(bound) for bound in bounds))]
        return one[0] if len(query) == 2 else one

    top = answer.top_k
    if top is not None:
        top = TopK(cut(top.indices, rows), cut(top.weights, rows), cut(top.times, rows))
    return replace(
        answer,
        output=cut(answer.output, rows),
        lse=cut(answer.lse, rows),
        scores=cut(answer.scores, rows, columns),
        weights=cut(answer.weights, rows, columns),
        key_mass=cut(answer.key_mass, columns),
        entropy=cut(answer.entropy, rows),
        top_k=top,
    )
