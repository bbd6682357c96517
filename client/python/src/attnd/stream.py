"""Many requests over one AttendStream, read no faster than they are answered."""

from __future__ import annotations

import heapq
import math
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, List, Optional, Tuple

import grpc

from attnd import wire
from attnd.forking import gate
from attnd.errors import AttndError, NotServed, Unreachable, from_rpc, from_status
from attnd.request import Request
from attnd.result import Attention, attention
from attnd.retry import Attempts
from attnd.v1 import attention_pb2

if TYPE_CHECKING:
    from attnd.client import Client

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


class _Outbox:
    """Requests on their way, shared by three threads under one lock: the one
    that reads the source, gRPC's that sends, and the caller's that receives.

    A request is `waiting` until a sender takes it, then `pending` until it is
    answered. Of several senders only the current one gets anything, so a request
    is never taken by one whose connection is broken.
    """

    def __init__(self, in_flight: int) -> None:
        self._changed = threading.Condition()
        self._credit = in_flight
        self._waiting: List[Tuple[float, int]] = []  # a heap of (due, index)
        self._pending: Dict[int, Tuple[Request, Attempts]] = {}
        self._sender = 0
        self._ended = False
        self._abandoned = False
        self.source_error: Optional[BaseException] = None

    def wait_for_credit(self) -> bool:
        """False: nobody wants any more answers."""
        with self._changed:
            self._changed.wait_for(lambda: self._credit > 0 or self._abandoned)
            self._credit -= 1
            return not self._abandoned

    def add(self, index: int, request: Request, attempts: Attempts) -> None:
        with self._changed:
            self._pending[index] = (request, attempts)
            heapq.heappush(self._waiting, (0.0, index))
            self._changed.notify_all()

    def end(self, error: Optional[BaseException] = None) -> None:
        with self._changed:
            self.source_error = error
            self._ended = True
            self._changed.notify_all()

    def abandon(self) -> None:
        with self._changed:
            self._abandoned = True
            self._sender += 1
            self._changed.notify_all()

    def new_sender(self) -> int:
        """Makes all that is unanswered waiting again, for a new connection."""
        with self._changed:
            self._sender += 1
            due = {index: at for at, index in self._waiting}
            self._waiting = [(due.get(index, 0.0), index) for index in self._pending]
            heapq.heapify(self._waiting)
            self._changed.notify_all()
            return self._sender

    def take(self, sender: int) -> Optional[Tuple[int, Request]]:
        """The next request to send; None when this sender has done its part."""
        with self._changed:
            while sender == self._sender and not self._abandoned:
                if self._ended and not self._pending:
                    return None
                due = self._waiting[0][0] if self._waiting else math.inf
                now = time.monotonic()
                if due <= now:
                    index = heapq.heappop(self._waiting)[1]
                    request, attempts = self._pending[index]
                    attempts.made += 1
                    return index, request
                self._changed.wait(None if due == math.inf else due - now)
            return None

    def settle(self, index: int, error: Optional[AttndError]) -> Optional[Request]:
        """The request that is done, or None if it goes again or is not known."""
        with self._changed:
            request, attempts = self._pending.get(index, (None, None))
            if request is None or attempts is None:
                return None
            wait = attempts.wait_after(error) if error is not None else None
            if wait is not None:
                heapq.heappush(self._waiting, (time.monotonic() + wait, index))
                request = None
            else:
                del self._pending[index]
            self._changed.notify_all()
            return request

    def give_credit(self) -> None:
        with self._changed:
            self._credit += 1
            self._changed.notify_all()

    @property
    def done(self) -> bool:
        with self._changed:
            return self._ended and not self._pending


def run_stream(
    client: "Client",
    requests: Iterable[Request],
    max_in_flight: Optional[int],
    ordered: bool,
) -> Iterator[Answer]:
    """See Client.stream()."""
    if max_in_flight is None:
        max_in_flight = _allowed_in_flight(client)
    if max_in_flight < 1:
        raise ValueError(f"max_in_flight: {max_in_flight}, expected at least 1")
    return _answers(client, requests, _Outbox(max_in_flight), ordered)


def _allowed_in_flight(client: "Client") -> int:
    try:
        return client.server_info().limits.stream_inflight or DEFAULT_IN_FLIGHT
    except NotServed:
        return DEFAULT_IN_FLIGHT


def _answers(
    client: "Client", requests: Iterable[Request], outbox: _Outbox, ordered: bool
) -> Iterator[Answer]:
    reader = threading.Thread(
        target=_read_source, args=(client, requests, outbox), daemon=True
    )
    reader.start()
    early: Dict[int, Answer] = {}
    next_index = 0
    try:
        for answer in _unordered(client, outbox):
            early[answer.index] = answer
            ready = next_index in early if ordered else True
            while ready:
                index = next_index if ordered else answer.index
                next_index += 1
                outbox.give_credit()
                yield early.pop(index)
                ready = ordered and next_index in early
        if outbox.source_error is not None:
            raise outbox.source_error
    finally:
        outbox.abandon()


def _read_source(
    client: "Client", requests: Iterable[Request], outbox: _Outbox
) -> None:
    settings = client.settings
    try:
        source = iter(requests)
        index = 0
        while outbox.wait_for_credit():
            try:
                request = next(source)
            except StopIteration:
                break
            attempts = Attempts(math.inf, settings.max_attempts, settings.reconnect)
            outbox.add(index, request, attempts)
            index += 1
        outbox.end()
    except BaseException as error:  # raised where the answers are read
        outbox.end(error)


def _unordered(client: "Client", outbox: _Outbox) -> Iterator[Answer]:
    """Answers of one connection after the other until all are there."""
    settings = client.settings
    attempts = Attempts(math.inf, settings.max_attempts, settings.reconnect)
    while not outbox.done:
        attempts.begin()
        messages = _messages(outbox, outbox.new_sender())
        connection = client._connected()
        with gate.entry():
            call = connection.attend_stream(
                messages, metadata=settings.call_metadata((), 0)
            )
        try:
            for message in call:
                attempts = Attempts(math.inf, settings.max_attempts, settings.reconnect)
                answer = _settled(outbox, message)
                if answer is not None:
                    yield answer
            error: AttndError = Unreachable("the stream ended early", "UNAVAILABLE")
        except grpc.RpcError as failed:
            error = from_rpc(failed)
        finally:
            call.cancel()
        if outbox.done:
            return
        wait = attempts.wait_after(error)
        if wait is None:
            raise error
        client._pause(wait, error)


def _messages(outbox: _Outbox, sender: int) -> Iterator[bytes]:
    while True:
        taken = outbox.take(sender)
        if taken is None:
            return
        index, request = taken
        # The last of two values of a field counts: an id that is unique here.
        name = str(index).encode()
        pieces = [*request.pieces(), wire.field_head(_ID, len(name)) + name]
        yield wire.joined(wire.nested(_REQUEST, pieces))


def _settled(outbox: _Outbox, message: bytes) -> Optional[Answer]:
    index = -1
    found: Dict[str, Any] = {}
    for field in wire.fields(memoryview(message)):
        for name in ("response", "status"):
            if field.number == _ANSWER[name].number:
                found[name] = field.value
        if field.number == _ANSWER["request_id"].number:
            index = int(bytes(field.value))
    error = None
    if "status" in found:
        error = from_status_bytes(bytes(found["status"]))
    request = outbox.settle(index, error)
    if request is None:
        return None
    if error is not None:
        return Answer(index, request, None, error)
    result = attention(found.get("response", b""), request.flat, request.time_dtype)
    object.__setattr__(result, "request_id", request.request_id)
    return Answer(index, request, result, None)


def from_status_bytes(details: bytes) -> AttndError:
    """The typed error of a serialized google.rpc.Status."""
    from attnd.rpc.v1 import error_details_pb2

    status = error_details_pb2.Status.FromString(details)
    codes = {code.value[0]: code.name for code in grpc.StatusCode}
    return from_status(codes.get(status.code, "UNKNOWN"), status.message, details)
