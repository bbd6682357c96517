"""Many requests over one AttendStream: what both clients do alike.

A Ledger knows which requests are unanswered and what may be sent; it has no
threads, no tasks and no connection. blocking_stream.py and async_stream.py drive it.
"""

from __future__ import annotations

import heapq
import math
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

import grpc

from attnd import wire
from attnd.channel import Settings
from attnd.errors import AttndError, from_status
from attnd.request import Request
from attnd.result import Attention, attention
from attnd.retry import Attempts
from attnd.v1 import attention_pb2

# What the server allows in flight unless it says otherwise (Limits).
DEFAULT_IN_FLIGHT = 16

_REQUEST = attention_pb2.AttendStreamRequest.DESCRIPTOR.fields_by_name["request"].number
_ID = attention_pb2.AttendRequest.DESCRIPTOR.fields_by_name["request_id"].number
_ANSWER = attention_pb2.AttendStreamResponse.DESCRIPTOR.fields_by_name


@dataclass(frozen=True, eq=False)
class Answer:
    """The outcome of one request of a stream.

    index    its place in the source, from 0
    request  the request itself
    result   its answer, or None
    error    why there is none, or None
    """

    index: int
    request: Request
    result: Optional[Attention]
    error: Optional[AttndError]

    def unwrap(self) -> Attention:
        """The result; raises the error if there is none."""
        if self.error is not None:
            raise self.error
        assert self.result is not None
        return self.result


def attempts_of(settings: Settings) -> Attempts:
    """Of one request, or one connection, of a stream: they have no deadline."""
    return Attempts(math.inf, settings.max_attempts, settings.reconnect)


class Ledger:
    """Requests on their way.

    A request is `waiting` until a sender takes it, then `pending` until it is
    answered. Of several senders only the current one gets anything, so a request
    is never taken by one whose connection is broken. `credit` is how many more
    requests may be read from the source.
    """

    def __init__(self, in_flight: int) -> None:
        self.credit = in_flight
        self.abandoned = False
        self.source_error: Optional[BaseException] = None
        self._waiting: List[Tuple[float, int]] = []  # a heap of (due, index)
        self._pending: Dict[int, Tuple[Request, Attempts]] = {}
        self._sender = 0
        self._ended = False

    @property
    def done(self) -> bool:
        return self._ended and not self._pending

    def add(self, index: int, request: Request, attempts: Attempts) -> None:
        self._pending[index] = (request, attempts)
        heapq.heappush(self._waiting, (0.0, index))

    def end(self, error: Optional[BaseException] = None) -> None:
        """The source has no more, or failed."""
        self.source_error = error
        self._ended = True

    def abandon(self) -> None:
        """Nobody wants any more answers."""
        self.abandoned = True
        self._sender += 1

    def new_sender(self) -> int:
        """Makes all that is unanswered waiting again, for a new connection."""
        self._sender += 1
        due = {index: at for at, index in self._waiting}
        self._waiting = [(due.get(index, 0.0), index) for index in self._pending]
        heapq.heapify(self._waiting)
        return self._sender

    def take(self, sender: int) -> Union[None, float, Tuple[int, Request]]:
        """The next request to send; or the seconds until there may be one, if
        nothing changes before; or None when this sender has done its part."""
        if sender != self._sender or self.abandoned or self.done:
            return None
        if not self._waiting:
            return math.inf
        wait = self._waiting[0][0] - time.monotonic()
        if wait > 0:
            return wait
        index = heapq.heappop(self._waiting)[1]
        request, attempts = self._pending[index]
        attempts.made += 1
        return index, request

    def settle(self, index: int, error: Optional[AttndError]) -> Optional[Request]:
        """The request that is done, or None if it goes again or is not known."""
        request, attempts = self._pending.get(index, (None, None))
        if request is None or attempts is None:
            return None
        wait = attempts.wait_after(error) if error is not None else None
        if wait is not None:
            heapq.heappush(self._waiting, (time.monotonic() + wait, index))
            return None
        del self._pending[index]
        return request


class InOrder:
    """Holds answers back until those before them are there, if `ordered`."""

    def __init__(self, ordered: bool) -> None:
        self._ordered = ordered
        self._early: Dict[int, Answer] = {}
        self._next = 0

    def ready(self, answer: Answer) -> Iterator[Answer]:
        if not self._ordered:
            yield answer
            return
        self._early[answer.index] = answer
        while self._next in self._early:
            self._next += 1
            yield self._early.pop(self._next - 1)


def checked_in_flight(max_in_flight: int) -> int:
    if max_in_flight < 1:
        raise ValueError(f"max_in_flight: {max_in_flight}, expected at least 1")
    return max_in_flight


def encoded(index: int, request: Request) -> bytes:
    """The message of a request."""
    # The last of two values of a field counts: an id that is unique here.
    name = str(index).encode()
    pieces = [*request.pieces(), wire.field_head(_ID, len(name)) + name]
    return wire.joined(wire.nested(_REQUEST, pieces))


def settled(
    settle: Callable[[int, Optional[AttndError]], Optional[Request]], message: bytes
) -> Optional[Answer]:
    """The answer in a message; None if its request goes again, or is not known.

    `settle` is that of the ledger.
    """
    index = -1
    response = memoryview(b"")
    error = None
    for number, value, _ in wire.fields(memoryview(message)):
        if number == _ANSWER["response"].number:
            response = value
        elif number == _ANSWER["status"].number:
            error = _typed(bytes(value))
        elif number == _ANSWER["request_id"].number:
            index = int(bytes(value))
    request = settle(index, error)
    if request is None or error is not None:
        return None if request is None else Answer(index, request, None, error)
    result = attention(response, request.flat, request.time_dtype)
    object.__setattr__(result, "request_id", request.request_id)
    return Answer(index, request, result, None)


def _typed(details: bytes) -> AttndError:
    """The typed error of a serialized google.rpc.Status."""
    from attnd.rpc.v1 import error_details_pb2

    status = error_details_pb2.Status.FromString(details)
    codes = {code.value[0]: code.name for code in grpc.StatusCode}
    return from_status(codes.get(status.code, "UNKNOWN"), status.message, details)
