"""Sequences of different lengths in one call.

They travel packed: all rows one after the other, and where each sequence begins.
Only `scores` and `weights` would then hold the pairs of every sequence with every
other, so for these the sequences are padded to the longest instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from attnd.arrays import Array, BFloat16, flags
from attnd.request import Request, request
from attnd.result import Attention, TopK
from attnd.times import Times, common, times

# What has rows of its own, or says where they are.
_REFUSED = (
    "bias",
    "gates",
    "query_clock",
    "key_clock",
    "query_lengths",
    "key_lengths",
    "query_offsets",
    "key_offsets",
    "layout",
)


@dataclass(frozen=True)
class _Side:
    """The queries, or the keys, of all sequences."""

    lengths: List[int]
    padded: bool

    @property
    def offsets(self) -> List[int]:
        return [0, *accumulate(self.lengths)]

    def mask(self, name: str) -> Dict[str, Any]:
        if self.padded:
            return {f"{name}_lengths": self.lengths}
        return {f"{name}_offsets": self.offsets}

    def joined(self, items: Sequence[Array], axis: int) -> Array:
        """Arrays with the rows of each sequence along `axis`, as a batch."""
        if not self.padded:
            return np.concatenate(items, axis)[None]
        shape = list(items[0].shape)
        shape[axis] = max(self.lengths)
        out = np.zeros((len(items), *shape), items[0].dtype)
        for place, item in zip(out, items):
            np.moveaxis(place, axis, 0)[: item.shape[axis]] = np.moveaxis(item, axis, 0)
        return out

    def rows(self, index: int) -> slice:
        """Where the rows of a sequence are in its batch item."""
        begin = 0 if self.padded else self.offsets[index]
        return slice(begin, begin + self.lengths[index])


@dataclass(frozen=True)
class Ragged:
    """One request of many sequences."""

    request: Request
    queries: _Side
    keys: _Side
    # Which sequences came without heads.
    flat: List[bool]

    def split(self, answer: Attention) -> List[Attention]:
        """The answers to the sequences; without heads if they had none."""
        return [self._one(answer, i) for i in range(len(self.flat))]

    def _one(self, answer: Attention, index: int) -> Attention:
        item = index if self.queries.padded else 0
        rows, keys = self.queries.rows(index), self.keys.rows(index)

        def cut(array: Any, *places: slice) -> Any:
            if array is None:
                return None
            place = (item, slice(None), *places)
            one = array[place]
            return one[0] if self.flat[index] else one

        top = answer.top_k
        if top is not None:
            # Counted from the sequence's own first key; -1 is none.
            indices = cut(top.indices, rows)
            own = np.where(indices < 0, indices, indices - keys.start)
            top = TopK(own, cut(top.weights, rows), cut(top.times, rows))
        return replace(
            answer,
            output=cut(answer.output, rows),
            lse=cut(answer.lse, rows),
            scores=cut(answer.scores, rows, keys),
            weights=cut(answer.weights, rows, keys),
            key_mass=cut(answer.key_mass, keys),
            entropy=cut(answer.entropy, rows),
            top_k=top,
        )


def ragged(
    queries: Sequence[Any],
    keys: Sequence[Any],
    values: Sequence[Any],
    *,
    query_times: Optional[Sequence[Any]] = None,
    key_times: Optional[Sequence[Any]] = None,
    time_unit: Optional[str] = None,
    naive: Optional[str] = None,
    key_valid: Optional[Sequence[Any]] = None,
    value_observed: Optional[Sequence[Any]] = None,
    outputs: Sequence[str] = ("output",),
    **options: Any,
) -> Ragged:
    """See Client.attend_ragged()."""
    refused = [name for name in _REFUSED if options.get(name) is not None]
    if refused:
        raise ValueError(f"attend_ragged: {', '.join(refused)} cannot be given")
    if not len(queries) == len(keys) == len(values) or not len(queries):
        raise ValueError(
            f"{len(queries)} queries, {len(keys)} keys, {len(values)} values: "
            "expected the same number of each, at least 1"
        )
    q, k, v = (
        _sequences(items, name)
        for items, name in ((queries, "queries"), (keys, "keys"), (values, "values"))
    )
    padded = "scores" in outputs or "weights" in outputs
    rows = _Side([item.shape[1] for item in q], padded)
    columns = _Side([item.shape[1] for item in k], padded)
    for i, (value, length) in enumerate(zip(v, columns.lengths)):
        if value.shape[1] != length:
            raise ValueError(
                f"values[{i}]: {value.shape[1]} rows, but its keys have {length}"
            )
    more: Dict[str, Any] = {**options, **rows.mask("query"), **columns.mask("key")}
    for name, given in (("key_valid", key_valid), ("value_observed", value_observed)):
        if given is not None:
            more[name] = columns.joined(_flags(given, name, columns.lengths), 0)
    if query_times is not None or key_times is not None:
        axes = _times(
            {"query_times": query_times, "key_times": key_times},
            {"query_times": rows.lengths, "key_times": columns.lengths},
            time_unit,
            naive,
        )
        more["query_time"] = rows.joined([t.values for t in axes[: len(q)]], 0)
        more["key_time"] = columns.joined([t.values for t in axes[len(q) :]], 0)
        more["time_unit"] = axes[0].unit
    made = request(
        _like(queries, rows.joined(q, 1)),
        _like(keys, columns.joined(k, 1)),
        _like(values, columns.joined(v, 1)),
        outputs=outputs,
        **more,
    )
    return Ragged(made, rows, columns, [np.ndim(item) == 2 for item in queries])


def _like(items: Sequence[Any], joined: Array) -> Any:
    return BFloat16(joined) if isinstance(items[0], BFloat16) else joined


def _sequences(items: Sequence[Any], name: str) -> List[Array]:
    """The arrays [H, L, D] of one argument, all of one type, heads and width."""
    out: List[Array] = []
    for i, item in enumerate(items):
        marked = isinstance(item, BFloat16)
        array = np.asarray(item.bits if marked else item)
        if array.ndim == 2:
            array = array[None]
        if array.ndim != 3:
            raise ValueError(
                f"{name}[{i}]: shape {array.shape}, expected [L, D] or [H, L, D]"
            )
        first = out[0] if out else array
        if array.dtype != first.dtype or marked != isinstance(items[0], BFloat16):
            raise TypeError(
                f"{name}[{i}]: elements of type {array.dtype}, but {name}[0] has "
                f"{first.dtype}"
            )
        heads, _, width = array.shape
        if (heads, width) != (first.shape[0], first.shape[2]):
            raise ValueError(
                f"{name}[{i}]: {heads} heads of width {width}, "
                f"but {name}[0] has {first.shape[0]} of {first.shape[2]}"
            )
        out.append(array)
    return out


def _flags(items: Sequence[Any], name: str, lengths: Sequence[int]) -> List[Array]:
    out = [flags(item, f"{name}[{i}]") for i, item in enumerate(items)]
    if [len(item) for item in out] != list(lengths):
        raise ValueError(f"{name}: expected one array for each sequence, by key")
    return out


def _times(
    sides: Mapping[str, Optional[Sequence[Any]]],
    lengths: Mapping[str, List[int]],
    time_unit: Optional[str],
    naive: Optional[str],
) -> List[Times]:
    """The times of all queries, then of all keys, in one unit."""
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
            shape = read[-1].values.shape
            if shape != (length,):
                raise ValueError(f"{names[-1]}: shape {shape}, expected ({length},)")
    return common(read, names)
