"""Client.stream(): a ledger shared by threads."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Iterable, Iterator, Optional

import grpc

from attnd.errors import AttndError, NotServed, Unreachable, from_rpc
from attnd.forking import gate
from attnd.request import Request
from attnd.stream import (
    DEFAULT_IN_FLIGHT,
    Answer,
    InOrder,
    Ledger,
    attempts_of,
    checked_in_flight,
    encoded,
    settled,
)

if TYPE_CHECKING:
    from attnd.client import Client


class _Outbox:
    """The ledger under one lock, for three threads: the one that reads the
    source, gRPC's that sends, and the caller's that receives."""

    def __init__(self, in_flight: int) -> None:
        self.changed = threading.Condition()
        self.ledger = Ledger(in_flight)

    def wait_for_credit(self) -> bool:
        """False: nobody wants any more answers."""
        ledger = self.ledger
        with self.changed:
            self.changed.wait_for(lambda: ledger.credit > 0 or ledger.abandoned)
            ledger.credit -= 1
            return not ledger.abandoned

    def messages(self, sender: int) -> Iterator[bytes]:
        """What one connection sends, as it becomes due."""
        while True:
            with self.changed:
                taken = self.ledger.take(sender)
                if isinstance(taken, float):
                    self.changed.wait(None if taken == math.inf else taken)
                    continue
            if taken is None:
                return
            yield encoded(*taken)

    def settle(self, index: int, error: Optional[AttndError]) -> Optional[Request]:
        with self.changed:
            self.changed.notify_all()
            return self.ledger.settle(index, error)


def run_stream(
    client: "Client",
    requests: Iterable[Request],
    max_in_flight: Optional[int],
    ordered: bool,
) -> Iterator[Answer]:
    """See Client.stream()."""
    if max_in_flight is None:
        max_in_flight = _allowed_in_flight(client)
    return _answers(client, requests, checked_in_flight(max_in_flight), ordered)


def _allowed_in_flight(client: "Client") -> int:
    try:
        return client.server_info().limits.stream_inflight or DEFAULT_IN_FLIGHT
    except NotServed:
        return DEFAULT_IN_FLIGHT


def _answers(
    client: "Client", requests: Iterable[Request], in_flight: int, ordered: bool
) -> Iterator[Answer]:
    outbox = _Outbox(in_flight)
    reader = threading.Thread(
        target=_read_source, args=(client, requests, outbox), daemon=True
    )
    reader.start()
    order = InOrder(ordered)
    try:
        for answer in _unordered(client, outbox):
            for ready in order.ready(answer):
                with outbox.changed:
                    outbox.ledger.credit += 1
                    outbox.changed.notify_all()
                yield ready
        if outbox.ledger.source_error is not None:
            raise outbox.ledger.source_error
    finally:
        with outbox.changed:
            outbox.ledger.abandon()
            outbox.changed.notify_all()


def _read_source(
    client: "Client", requests: Iterable[Request], outbox: _Outbox
) -> None:
    ledger = outbox.ledger
    failed: Optional[BaseException] = None
    try:
        source = iter(requests)
        index = 0
        while outbox.wait_for_credit():
            try:
                request = next(source)
            except StopIteration:
                break
            with outbox.changed:
                ledger.add(index, request, attempts_of(client.settings))
                outbox.changed.notify_all()
            index += 1
    except BaseException as error:  # raised where the answers are read
        failed = error
    with outbox.changed:
        ledger.end(failed)
        outbox.changed.notify_all()


def _unordered(client: "Client", outbox: _Outbox) -> Iterator[Answer]:
    """Answers of one connection after the other until all are there."""
    ledger, settings = outbox.ledger, client.settings
    attempts = attempts_of(settings)
    while not ledger.done:
        attempts.begin()
        with outbox.changed:
            sender = ledger.new_sender()
            outbox.changed.notify_all()
        with gate.call():
            connection = client._connected()
            with gate.entry():
                call = connection.attend_stream(
                    outbox.messages(sender), metadata=settings.call_metadata((), 0)
                )
        try:
            for message in call:
                attempts = attempts_of(settings)
                answer = settled(outbox.settle, message)
                if answer is not None:
                    yield answer
            error: AttndError = Unreachable("the stream ended early", "UNAVAILABLE")
        except grpc.RpcError as failed:
            error = from_rpc(failed)
        finally:
            call.cancel()
        if ledger.done:
            return
        wait = attempts.wait_after(error)
        if wait is None:
            raise error
        client._pause(wait, error)
