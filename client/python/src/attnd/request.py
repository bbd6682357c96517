"""Requests out of arrays and times."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import (
    Any,
    Dict,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
)

import numpy as np

from attnd import arrays, masks, wire
from attnd.arrays import Array
from attnd.durations import Duration
from attnd.linear import Linear
from attnd.times import Times, common, times
from attnd.v1 import attention_pb2, encoding_pb2, tensor_pb2

Window = Union[Duration, int, float]
Encoding = Union[str, Mapping[str, Any], encoding_pb2.Encoding]
Metadata = Mapping[str, Union[str, bytes]]

_NUMBERS = {
    field.name: field.number for field in attention_pb2.AttendRequest.DESCRIPTOR.fields
}
_TENSOR_DATA = tensor_pb2.Tensor.DESCRIPTOR.fields_by_name["data"].number
_TIMES_DATA = tensor_pb2.TimeAxis.DESCRIPTOR.fields_by_name["data"].number


def _choices(enum: Any, prefix: str) -> Dict[Any, Any]:
    """The values of an enum as this package spells them: "absolute_lag"."""
    return {
        name[len(prefix) :].lower(): number for name, number in enum.items() if number
    }


_CAUSALITY = {
    **_choices(attention_pb2.Causality, "CAUSALITY_"),
    True: attention_pb2.CAUSALITY_TIME,
    False: attention_pb2.CAUSALITY_NONE,
}
_TWO_SIDED = _choices(encoding_pb2.TwoSidedRule, "TWO_SIDED_RULE_")
_LAYOUTS = _choices(tensor_pb2.Layout, "LAYOUT_")
_OUTPUTS = _choices(attention_pb2.Output, "OUTPUT_")
_PRECISIONS = {
    "float32": attention_pb2.COMPUTE_PRECISION_F32,
    "bfloat16": attention_pb2.COMPUTE_PRECISION_BF16,
}


def _choose(choices: Mapping[Any, Any], value: Any, name: str) -> Any:
    try:
        return choices[value]
    except (KeyError, TypeError):
        known = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name}: {value!r}, expected one of {known}") from None


class _Field(NamedTuple):
    """A big array of a request."""

    number: int
    # Its message (Tensor, TimeAxis) without the data.
    header: bytes
    # All that stands before the data on the wire.
    head: bytes
    data: Array


@dataclass(frozen=True, eq=False)
class Request:
    """A checked request, ready to be sent any number of times; see request().

    It borrows the arrays it was made of: leave them unchanged until its calls
    have returned.
    """

    # Everything but the big arrays.
    header: attention_pb2.AttendRequest
    arrays: List[_Field]
    # The arrays came without batch and heads, so answers go without them.
    flat: bool = False
    # What the times of the answer are; None: there are none.
    time_dtype: Optional[str] = None
    timeout: Optional[float] = None
    metadata: Tuple[Tuple[str, Union[str, bytes]], ...] = ()

    @property
    def request_id(self) -> str:
        return self.header.request_id

    @property
    def nbytes(self) -> int:
        """Bytes of the message."""
        big = sum(len(field.head) + field.data.nbytes for field in self.arrays)
        return int(self.header.ByteSize()) + big

    def pieces(self) -> List[wire.Piece]:
        """The message; joined they are an encoded AttendRequest."""
        pieces: List[wire.Piece] = [self.header.SerializeToString()]
        for field in self.arrays:
            pieces.append(field.head)
            # Arrays without elements have no buffer that could be joined.
            if field.data.size:
                pieces.append(field.data)
        return pieces

    def outline(self) -> attention_pb2.AttendRequest:
        """The message without the data of its arrays."""
        message = attention_pb2.AttendRequest()
        message.CopyFrom(self.header)
        names = attention_pb2.AttendRequest.DESCRIPTOR.fields_by_number
        for field in self.arrays:
            getattr(message, names[field.number].name).ParseFromString(field.header)
        return message

    def to_bytes(self) -> bytes:
        """The encoded message, the one copy of the arrays that is made."""
        return wire.joined(self.pieces())


def request(
    query: Any,
    key: Any,
    value: Any,
    *,
    query_time: Any = None,
    key_time: Any = None,
    time_unit: Optional[str] = None,
    naive: Optional[str] = None,
    coordinates: int = 1,
    encoding: Optional[Encoding] = None,
    two_sided: Optional[str] = None,
    causal: Union[bool, str] = False,
    strict: bool = False,
    window: Union[None, Window, Tuple[Optional[Window], Optional[Window]]] = None,
    window_keys: Union[None, int, Tuple[Optional[int], Optional[int]]] = None,
    prefix: int = 0,
    query_lengths: Optional[Sequence[int]] = None,
    key_lengths: Optional[Sequence[int]] = None,
    query_offsets: Optional[Sequence[int]] = None,
    key_offsets: Optional[Sequence[int]] = None,
    key_valid: Any = None,
    value_observed: Any = None,
    key_ranges: Optional[Sequence[Tuple[Any, Any]]] = None,
    sinks: Optional[Sequence[float]] = None,
    bias: Any = None,
    gates: Any = None,
    query_clock: Any = None,
    key_clock: Any = None,
    scale: Optional[float] = None,
    softcap: Optional[float] = None,
    linear: Optional[Linear] = None,
    compute: Optional[str] = None,
    prune_tolerance: float = 0.0,
    outputs: Sequence[str] = ("output",),
    output_dtype: Any = None,
    top_k: int = 0,
    layout: str = "bhld",
    priority: int = 0,
    request_id: str = "",
    timeout: Optional[float] = None,
    metadata: Optional[Metadata] = None,
) -> Request:
    """Attention of queries over keys and values at their real times.

    Shapes: B batch, Hq query heads, Hkv key/value heads (Hkv divides Hq), Lq
    queries, Lk keys, D and Dv dimensions. Arrays may have all four axes or only
    the last two, which means B = H = 1 and answers without those axes. Elements
    are float32, float16 or bfloat16 (see attnd.BFloat16), in any strides.

    Tensors
      query            [B, Hq, Lq, D]
      key, value       [B, Hkv, Lk, D], [B, Hkv, Lk, Dv]
      layout           "bhld", or "blhd" for arrays [B, L, H, D]
      bias             [B|1, Hq|1, Lq|1, Lk|1], added to the logits; -inf hides
      gates            [B, Hq, Lk], log gates (<= 0) of cumulative biases
      query_clock, key_clock    [B, Hkv, L] or [B, Hkv, L, channels], learned

    Times: both or none; without them rows stand at integer positions.
      query_time, key_time      [Lq] or [B, Lq], [Lk] or [B, Lk]: datetime64,
                       pandas, Polars, Arrow, or numbers with a unit
      time_unit        what plain numbers count: "ns", "us", "ms", "s", "positions"
      naive            the zone that zone-less times are meant in, e.g. "UTC"
      coordinates      C > 1: times are [L, C] or [B, L, C]

    Encoding
      encoding         name of a configured one, or a definition (a mapping in the
                       words of the server's configuration) where that is allowed
      two_sided        keys after a query under a one-sided encoding: "refuse" or
                       "absolute_lag"; None: what the encoding says

    Which keys a query sees; all conditions must hold
      causal           True or "time": keys at or before the query's time;
                       "index": by place in the order given
      strict           not at the same time (or place) either
      window           "36h", timedelta: at most so far away, before and, unless
                       causal, after; (past, future) bounds each, None is no
                       bound. A plain number for positions
      window_keys      at most so many keys, likewise
      prefix           that many first keys are seen by every query
      query_lengths, key_lengths    [B], valid rows of padded batches
      query_offsets, key_offsets    first rows of sequences packed in one item
      key_valid        [B, Lk] or [Lk] bool, False: not there
      value_observed   [B, Lk, Dv] or [Lk, Dv] bool: each value channel averages
                       over its own observed keys
      key_ranges       pairs (first, last) of times; keys elsewhere are hidden
      sinks            [Hq] logits that count in the denominator alone

    Arithmetic
      scale            multiplies q.k; None: 1/sqrt(D)
      softcap          c: c * tanh(logit / c)
      linear           attnd.Linear(): linear attention instead of softmax
      compute          "float32" or "bfloat16" products; None: float32
      prune_tolerance  share of weight that may be skipped, in [0, 1)

    Answer
      outputs          any of "output", "lse", "scores", "weights", "top_k",
                       "key_mass", "entropy"
      output_dtype     "float32", "float16", "bfloat16"; None: the query's
      top_k            keys per row for "top_k"

    Call
      priority         -10 to 10, larger is served first within a tenant
      request_id       comes back with the answer; up to 128 bytes
      timeout          seconds, retries and waits included; None: the client's
      metadata         sent beside the client's

    ValueError and TypeError name the argument that is wrong; what only the
    server can judge it refuses with attnd.InvalidRequest.
    """
    tensors = {
        "query": arrays.tensor(query, "query"),
        "key": arrays.tensor(key, "key"),
        "value": arrays.tensor(value, "value"),
    }
    flat = _is_flat(tensors)
    if flat:
        axis = 0 if layout == "bhld" else 1
        tensors = {name: _unflat(tensor, axis) for name, tensor in tensors.items()}
    header = attention_pb2.AttendRequest(
        request_id=request_id,
        scale=scale,
        softcap=softcap,
        prune_tolerance=prune_tolerance,
        outputs=[_choose(_OUTPUTS, output, "outputs") for output in outputs],
        top_k=top_k,
        priority=priority,
    )
    _set_encoding(header, encoding)
    if two_sided is not None:
        header.two_sided = _choose(_TWO_SIDED, two_sided, "two_sided")
    if compute is not None:
        header.compute = _choose(_PRECISIONS, compute, "compute")
    if output_dtype is not None:
        name = getattr(output_dtype, "__name__", output_dtype)
        header.output_dtype = _choose(arrays.DTYPE_NAMES, str(name), "output_dtype")
    if linear is not None:
        header.kind = attention_pb2.ATTENTION_KIND_LINEAR
        header.linear.CopyFrom(linear.message())

    axes = _axes(query_time, key_time, time_unit, naive)
    ticks = axes["key_time"] if axes else None
    if causal or strict:
        header.mask.causal = _choose(_CAUSALITY, causal, "causal")
        header.mask.strict = strict
    masks.set_window(header.mask, window, bool(causal), ticks)
    masks.set_window_keys(header.mask, window_keys, bool(causal))
    if key_ranges is not None:
        masks.set_ranges(header.mask, key_ranges, ticks, time_unit, naive)
    masks.set_rows(
        header.mask,
        prefix=[prefix],
        query_lengths=query_lengths,
        key_lengths=key_lengths,
        query_offsets=query_offsets,
        key_offsets=key_offsets,
    )
    if key_valid is not None:
        header.mask.key_validity = arrays.flags(key_valid, "key_valid").tobytes()
    if value_observed is not None:
        observed = arrays.flags(value_observed, "value_observed")
        header.mask.value_channel_mask = observed.tobytes()
    if sinks is not None:
        header.mask.sinks.extend(np.asarray(sinks, dtype=np.float64).tolist())

    if bias is not None:
        tensors["bias"] = arrays.tensor(bias, "bias")
        if tensors["bias"].data.ndim == 2:
            tensors["bias"] = _unflat(tensors["bias"], 0)
    for name, extra in (
        ("gates", gates),
        ("query_clock", query_clock),
        ("key_clock", key_clock),
    ):
        if extra is not None:
            tensors[name] = arrays.tensor(extra, name)
    fields = _fields(tensors, axes, _choose(_LAYOUTS, layout, "layout"), coordinates)
    return Request(
        header,
        fields,
        flat,
        ticks.dtype_text if ticks else None,
        timeout,
        tuple((metadata or {}).items()),
    )


def _is_flat(tensors: Mapping[str, arrays.Tensor]) -> bool:
    ranks = {name: len(tensor.shape) for name, tensor in tensors.items()}
    if set(ranks.values()) == {2}:
        return True
    if set(ranks.values()) != {4}:
        shapes = ", ".join(f"{name} {tensor.shape}" for name, tensor in tensors.items())
        raise ValueError(
            f"{shapes}: expected 4 axes, batch and heads first, or 2 axes everywhere"
        )
    return False


def _unflat(tensor: arrays.Tensor, axis: int) -> arrays.Tensor:
    rows, columns = tensor.shape
    return tensor.reshaped(
        (1, 1, rows, columns) if axis == 0 else (1, rows, 1, columns)
    )


def _set_encoding(
    header: attention_pb2.AttendRequest, encoding: Optional[Encoding]
) -> None:
    if encoding is None:
        return
    if isinstance(encoding, str):
        header.encoding = encoding
    elif isinstance(encoding, encoding_pb2.Encoding):
        header.inline_encoding.CopyFrom(encoding)
    else:
        from google.protobuf import json_format

        try:
            json_format.ParseDict(dict(encoding), header.inline_encoding)
        except json_format.ParseError as error:
            raise ValueError(f"encoding: {error}") from None


def _axes(
    query_time: Any, key_time: Any, time_unit: Optional[str], naive: Optional[str]
) -> Dict[str, Times]:
    if query_time is None and key_time is None:
        return {}
    if query_time is None or key_time is None:
        missing = "query_time" if query_time is None else "key_time"
        raise ValueError(f"{missing}: missing; give both times or none")
    given = {"query_time": query_time, "key_time": key_time}
    if query_time is key_time:  # a sequence that attends to itself
        del given["key_time"]
    read = [
        times(values, name, time_unit=time_unit, naive=naive)
        for name, values in given.items()
    ]
    same = common(read, list(given))
    return {"query_time": same[0], "key_time": same[-1]}


def _fields(
    tensors: Mapping[str, arrays.Tensor],
    axes: Mapping[str, Times],
    layout: int,
    coordinates: int,
) -> List[_Field]:
    out: List[_Field] = []
    for name, tensor in tensors.items():
        main = name in ("query", "key", "value")
        header = _tensor_header(tensor.dtype, tensor.shape, layout if main else 0)
        out.append(_field(name, header, _TENSOR_DATA, tensor.data))
    for name, axis in axes.items():
        out.append(_field(name, axis.header(coordinates), _TIMES_DATA, axis.values))
    return out


def _field(name: str, header: bytes, data_field: int, data: Array) -> _Field:
    number = _NUMBERS[name]
    head = wire.data_head(number, header, data_field, data.nbytes)
    return _Field(number, header, head, data)


@lru_cache(maxsize=256)
def _tensor_header(dtype: Any, shape: Tuple[int, ...], layout: Any) -> bytes:
    tensor = tensor_pb2.Tensor(dtype=dtype, shape=shape, layout=layout)
    encoded: bytes = tensor.SerializeToString()
    return encoded
