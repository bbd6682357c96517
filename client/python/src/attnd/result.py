"""Answers as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Dict, List, Optional, Tuple, Union

from attnd import arrays, wire
from attnd.arrays import Array
from attnd.linear import LinearState
from attnd.v1 import attention_pb2, tensor_pb2

_FIELDS = attention_pb2.AttendResponse.DESCRIPTOR.fields_by_name
_TENSORS = {
    field.number: name
    for name, field in _FIELDS.items()
    if field.message_type is not None and field.message_type.name == "Tensor"
}
_TENSOR_DATA = tensor_pb2.Tensor.DESCRIPTOR.fields_by_name["data"].number


@dataclass(frozen=True, eq=False)
class TopK:
    """The largest weights of each row, descending; [B, Hq, Lq, k].

    indices   int64, the key's index within its item; -1 where a row has fewer
    weights   float32
    times     of those keys: datetime64, int64 positions or float64; None without
              times
    """

    indices: Array
    weights: Array
    times: Optional[Array]


@dataclass(frozen=True)
class Stats:
    """What the answer cost and how it was made; seconds are the server's."""

    queue_seconds: float
    compute_seconds: float
    predicted_seconds: float
    flops: int
    skipped_tiles: int
    lost_mass_bound: float
    # "float32" or "bfloat16" products.
    compute: str
    instruction_set: str
    config_hash: str
    config_generation: int


@dataclass(frozen=True, eq=False)
class Attention:
    """The answer to a request; what was not asked for is None.

    output       [B, Hq, Lq, Dv], in the query's layout and type
    lse          [B, Hq, Lq] float32, natural log of the sum of exp(score); -inf
                 for rows that see no key, whose output is 0
    scores       [B, Hq, Lq, Lk] float32 logits; -inf where hidden
    weights      [B, Hq, Lq, Lk] float32, exp(score - lse)
    top_k        the largest weights of each row
    key_mass     [B, Hq, Lk] float32, weight that each key received
    entropy      [B, Hq, Lq] float32, nats
    final_state  of linear attention

    Requests of two-axis arrays get answers without B and H. Arrays are
    writable and own their memory.
    """

    request_id: str
    output: Any
    lse: Optional[Array]
    scores: Optional[Array]
    weights: Optional[Array]
    top_k: Optional[TopK]
    key_mass: Optional[Array]
    entropy: Optional[Array]
    final_state: Optional[LinearState]
    stats: Stats


def attention(
    message: Union[bytes, memoryview],
    flat: bool = False,
    time_dtype: Optional[str] = None,
) -> Attention:
    """Reads an encoded AttendResponse, copying each array once.

    `flat` leaves out the axes of batch and heads; `time_dtype` is that of the
    request's times, None if it has none.
    """
    tensors: Dict[str, Any] = dict.fromkeys(_TENSORS.values())
    rest: List[memoryview] = []
    for number, value, whole in wire.fields(memoryview(message)):
        name = _TENSORS.get(number)
        if name is None:
            rest.append(whole)
        else:
            tensors[name] = _tensor(value, flat)
    small = attention_pb2.AttendResponse.FromString(b"".join(rest))
    return Attention(
        request_id=small.request_id,
        top_k=(
            _top_k(small.top_k, flat, time_dtype) if small.HasField("top_k") else None
        ),
        final_state=(
            LinearState(small.final_state.SerializeToString())
            if small.HasField("final_state")
            else None
        ),
        stats=_stats(small.stats),
        **tensors,
    )


def _tensor(message: memoryview, flat: bool) -> Any:
    data = memoryview(b"")
    rest: List[memoryview] = []
    for number, value, whole in wire.fields(message):
        if number == _TENSOR_DATA:
            data = value
        else:
            rest.append(whole)
    dtype, shape = _kind(b"".join(rest), flat)
    return arrays.array(dtype, shape, data)


@lru_cache(maxsize=256)
def _kind(header: bytes, flat: bool) -> Tuple[int, Tuple[int, ...]]:
    """Element type and shape of an encoded Tensor without data."""
    tensor = tensor_pb2.Tensor.FromString(header)
    shape = tuple(tensor.shape)
    if flat:
        # [1,1,L,D], [1,L,1,D] or [1,1,L]: the two ones are batch and heads.
        heads = 2 if tensor.layout == tensor_pb2.LAYOUT_BLHD else 1
        shape = tuple(n for axis, n in enumerate(shape) if axis not in (0, heads))
    return tensor.dtype, shape


def _top_k(message: attention_pb2.TopK, flat: bool, time_dtype: Optional[str]) -> TopK:
    shape = tuple(message.weights.shape)
    if flat:
        shape = shape[2:]
    return TopK(
        arrays.owned(message.indices, "<i8", shape),
        arrays.owned(message.weights.data, "<f4", shape),
        None if time_dtype is None else arrays.owned(message.times, time_dtype, shape),
    )


def _stats(message: attention_pb2.Stats) -> Stats:
    bf16 = message.compute == attention_pb2.COMPUTE_PRECISION_BF16
    return Stats(
        queue_seconds=message.queue_seconds,
        compute_seconds=message.compute_seconds,
        predicted_seconds=message.predicted_seconds,
        flops=message.flops,
        skipped_tiles=message.skipped_tiles,
        lost_mass_bound=message.lost_mass_bound,
        compute="bfloat16" if bf16 else "float32",
        instruction_set=message.instruction_set,
        config_hash=message.config_hash,
        config_generation=message.config_generation,
    )
