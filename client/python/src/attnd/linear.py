"""Settings and carried state of linear attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Sequence

from attnd.v1 import attention_pb2


@dataclass(frozen=True)
class LinearState:
    """State after the last key, to go on from in a later request.

    Opaque bytes that the server checks; store or send them as you like.
    """

    serialized: bytes


@dataclass(frozen=True)
class Linear:
    """Linear attention, o(t) = scale * sum over s <= t of q^T A(t-s) k v^T.

    normaliser     "none", "sum" or "retnet"
    feature_map    "identity", "elu_plus_one", "relu" or "softplus"
    input_rule     "event", "zero_order_hold" or "trapezoid"
    bidirectional  also attend to the future, in a second pass
    initial_state  what an earlier piece returned; None: zero
    return_state   put the state after the last key into the answer
    merge_states   those of further segments of the stream, in any order ("event"
                   only): all are moved to the latest and added up
    """

    normaliser: str = "none"
    feature_map: str = "identity"
    input_rule: str = "event"
    bidirectional: bool = False
    initial_state: Optional[LinearState] = None
    return_state: bool = False
    merge_states: Sequence[LinearState] = ()

    def message(self) -> attention_pb2.LinearOptions:
        options = attention_pb2.LinearOptions(
            bidirectional=self.bidirectional, return_state=self.return_state
        )
        for field, value in (
            ("normaliser", self.normaliser),
            ("feature_map", self.feature_map),
            ("input_rule", self.input_rule),
        ):
            name = f"{field.upper()}_{value.upper()}"
            try:
                setattr(options, field, getattr(attention_pb2.LinearOptions, name))
            except AttributeError:
                raise ValueError(f"linear.{field}: {value!r} is not known") from None
        if self.initial_state is not None:
            options.initial_state.ParseFromString(self.initial_state.serialized)
        for state in self.merge_states:
            options.merge_states.add().ParseFromString(state.serialized)
        return options
