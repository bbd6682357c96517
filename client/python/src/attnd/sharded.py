"""Histories longer than one call, or one machine: attention piece by piece.

Softmax attention over all keys is the mean of the attentions over disjoint pieces
of them, weighted by exp(lse): each piece is one call to any replica.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, List, Optional, Sequence

import numpy as np

from attnd.arrays import Array, BFloat16
from attnd.base import Base
from attnd.request import Request, request
from attnd.result import Attention, Stats
from attnd.times import times

if TYPE_CHECKING:
    from attnd.aio import AsyncClient
    from attnd.client import Client

# What depends on keys outside of a piece.
_WHOLE = (
    "prefix",
    "window_keys",
    "gates",
    "linear",
    "key_offsets",
    "query_offsets",
    "key_lengths",
    "query_lengths",
    "top_k",
)


def shards(
    query: Any,
    key: Any,
    value: Any,
    key_chunk: int,
    *,
    query_time: Any = None,
    key_time: Any = None,
    time_unit: Optional[str] = None,
    naive: Optional[str] = None,
    coordinates: int = 1,
    bias: Any = None,
    key_valid: Any = None,
    value_observed: Any = None,
    key_clock: Any = None,
    sinks: Optional[Sequence[float]] = None,
    causal: Any = False,
    layout: str = "bhld",
    **options: Any,
) -> List[Callable[[], Request]]:
    """What makes the request of each `key_chunk` keys, when its turn comes."""
    refused = [name for name in _WHOLE if options.get(name)]
    if refused or causal == "index":
        raise ValueError(
            f"attend_sharded: {', '.join(refused) or 'causal by index'} looks at all "
            "keys at once and cannot be computed piece by piece"
        )
    if key_chunk < 1:
        raise ValueError(f"key_chunk: {key_chunk}, expected at least 1")
    key, value = _indexable(key), _indexable(value)
    rows = 0 if key.ndim == 2 else 2 if layout == "bhld" else 1
    count = key.shape[rows]
    if query_time is None and key_time is None:
        # Where each row stands must not change when keys are left out.
        query_time = np.arange(count - np.shape(query)[rows], count)
        key_time = np.arange(count)
        time_unit = "positions"
    else:
        query_time, key_time = (
            _as_array(values, name, time_unit, naive)
            for values, name in ((query_time, "query_time"), (key_time, "key_time"))
        )
    time_axis = np.ndim(key_time) - (2 if coordinates > 1 else 1)

    def cut(array: Any, axis: int, begin: int, end: int) -> Any:
        if array is None or np.shape(array)[axis] == 1 != count:
            return array
        place = [slice(None)] * np.ndim(array)
        place[axis] = slice(begin, end)
        return _indexable(array)[tuple(place)]

    out: List[Callable[[], Request]] = []
    for begin in range(0, max(count, 1), key_chunk):
        end = min(begin + key_chunk, count)
        out.append(
            partial(
                request,
                query,
                cut(key, rows, begin, end),
                cut(value, rows, begin, end),
                query_time=query_time,
                key_time=cut(key_time, time_axis, begin, end),
                time_unit=time_unit,
                coordinates=coordinates,
                bias=cut(bias, -1, begin, end),
                key_valid=cut(key_valid, -1, begin, end),
                value_observed=cut(value_observed, -2, begin, end),
                key_clock=cut(key_clock, 2, begin, end),
                # Extra logits of the denominator count once.
                sinks=sinks if begin == 0 else None,
                causal=causal,
                layout=layout,
                **{**options, "outputs": ("output", "lse"), "output_dtype": "float32"},
            )
        )
    return out


def _indexable(array: Any) -> Any:
    return array if isinstance(array, BFloat16) else np.asarray(array)


def _as_array(
    values: Any, name: str, time_unit: Optional[str], naive: Optional[str]
) -> Array:
    read = times(values, name, time_unit=time_unit, naive=naive)
    return read.values.view(read.dtype_text)


def merged(pieces: Sequence[Attention], layout: str = "bhld") -> Attention:
    """Output and lse over all keys from those over disjoint pieces of them.

    Rows that see no key anywhere stay 0 with lse -inf.
    """
    lse = np.stack([np.asarray(piece.lse, np.float64) for piece in pieces])
    top = lse.max(axis=0)
    top = np.where(np.isneginf(top), 0.0, top)
    weights = np.exp(lse - top)
    total = weights.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(total == 0, 0.0, weights / total)
        merged_lse = top + np.log(total)
    output = np.zeros(pieces[0].output.shape, np.float64)
    for share, piece in zip(shares, pieces):
        if layout == "blhd" and share.ndim == 3:
            share = share.swapaxes(1, 2)
        # A piece without visible keys counts for nothing, not for 0 * NaN.
        part = share[..., None] * piece.output
        output += np.where(share[..., None] != 0, part, 0.0)
    return replace(
        pieces[0],
        output=output.astype(np.float32),
        lse=merged_lse.astype(np.float32),
        stats=_sum([piece.stats for piece in pieces]),
    )


def _sum(stats: Sequence[Stats]) -> Stats:
    added = {
        name: sum(getattr(each, name) for each in stats)
        for name in ("compute_seconds", "predicted_seconds", "flops", "skipped_tiles")
    }
    longest = max(each.queue_seconds for each in stats)
    lost = max(each.lost_mass_bound for each in stats)
    return replace(stats[0], queue_seconds=longest, lost_mass_bound=lost, **added)


def _parallel(clients: Sequence[Base], makers: Sequence[Any]) -> int:
    """Pieces that are made and on their way at a time: each may be a copy."""
    return min(len(makers), sum(c.settings.max_in_flight for c in clients), 64)


def send_all(
    clients: Sequence["Client"], makers: Sequence[Callable[[], Request]]
) -> List[Attention]:
    """The answers to requests that are spread over clients, several at a time."""
    parallel = _parallel(clients, makers)
    with ThreadPoolExecutor(parallel) as pool:
        waiting = [
            pool.submit(_send, clients[i % len(clients)], make)
            for i, make in enumerate(makers)
        ]
        try:
            return [future.result() for future in waiting]
        except BaseException:
            for future in waiting:
                future.cancel()
            raise


def _send(client: "Client", make: Callable[[], Request]) -> Attention:
    return client.send(make())


async def send_all_async(
    clients: Sequence["AsyncClient"], makers: Sequence[Callable[[], Request]]
) -> List[Attention]:
    """send_all() of tasks."""
    turns = asyncio.Semaphore(_parallel(clients, makers))

    async def send(client: "AsyncClient", make: Callable[[], Request]) -> Attention:
        async with turns:
            return await client.send(make())

    tasks = [
        asyncio.ensure_future(send(clients[i % len(clients)], make))
        for i, make in enumerate(makers)
    ]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
