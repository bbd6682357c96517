"""AsyncClient.stream(): a ledger shared by tasks of one loop."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
from typing import (
    TYPE_CHECKING,
    Any,
    AsyncGenerator,
    AsyncIterable,
    Iterable,
    Optional,
    Union,
)

import grpc
import grpc.aio

from attnd.errors import AttndError, Cancelled, NotServed, Unreachable, from_rpc
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
    from attnd.aio import AsyncClient

# What current versions of grpc.aio say, with code INTERNAL, instead of the status of
# a stream that ended while something was written to it (grpc issue 36066).
_WRITE_FAILED = "Internal error from Core"

Source = Union[Iterable[Request], AsyncIterable[Request]]


class _Outbox:
    """The ledger, and what wakes the task that reads the source and the one that
    sends."""

    def __init__(self, in_flight: int) -> None:
        self.ledger = Ledger(in_flight)
        self.has_credit = asyncio.Event()
        self.has_work = asyncio.Event()

    async def wait_for_credit(self) -> None:
        while self.ledger.credit <= 0:
            self.has_credit.clear()
            await self.has_credit.wait()
        self.ledger.credit -= 1

    def give_credit(self) -> None:
        self.ledger.credit += 1
        self.has_credit.set()

    async def send(self, call: Any, sender: int) -> None:
        """Sends what is due, as it becomes due; then says that was all."""
        while True:
            self.has_work.clear()
            taken = self.ledger.take(sender)
            if taken is None:
                await call.done_writing()
                return
            if isinstance(taken, float):
                with contextlib.suppress(asyncio.TimeoutError):
                    timeout = None if taken == math.inf else taken
                    await asyncio.wait_for(self.has_work.wait(), timeout)
            else:
                await call.write(encoded(*taken))


async def run_stream(
    client: "AsyncClient",
    requests: Source,
    max_in_flight: Optional[int],
    ordered: bool,
) -> AsyncGenerator[Answer, None]:
    """See AsyncClient.stream()."""
    if max_in_flight is None:
        max_in_flight = await _allowed_in_flight(client)
    outbox = _Outbox(checked_in_flight(max_in_flight))
    reader = asyncio.ensure_future(_read_source(client, requests, outbox))
    order = InOrder(ordered)
    try:
        async with contextlib.aclosing(_unordered(client, outbox)) as answers:
            async for answer in answers:
                for ready in order.ready(answer):
                    outbox.give_credit()
                    yield ready
        if outbox.ledger.source_error is not None:
            raise outbox.ledger.source_error
    finally:
        await _ended(reader)


async def _allowed_in_flight(client: "AsyncClient") -> int:
    try:
        limits = (await client.server_info()).limits
    except NotServed:
        return DEFAULT_IN_FLIGHT
    return limits.stream_inflight or DEFAULT_IN_FLIGHT


async def _ended(task: "asyncio.Future[None]") -> None:
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.exception()  # a broken connection, which the receiver reports


async def _read_source(
    client: "AsyncClient", requests: Source, outbox: _Outbox
) -> None:
    ledger = outbox.ledger
    failed: Optional[BaseException] = None
    try:
        async with contextlib.aclosing(_each(requests)) as source:
            for index in itertools.count():
                await outbox.wait_for_credit()
                try:
                    request = await source.__anext__()
                except StopAsyncIteration:
                    break
                ledger.add(index, request, attempts_of(client.settings))
                outbox.has_work.set()
    except Exception as error:  # raised where the answers are read
        failed = error
    ledger.end(failed)
    outbox.has_work.set()


async def _each(requests: Source) -> AsyncGenerator[Request, None]:
    if not isinstance(requests, AsyncIterable):
        for request in requests:
            yield request
        return
    source = requests.__aiter__()
    try:
        async for request in source:
            yield request
    finally:
        if isinstance(source, AsyncGenerator):
            await source.aclose()


async def _unordered(
    client: "AsyncClient", outbox: _Outbox
) -> AsyncGenerator[Answer, None]:
    """Answers of one connection after the other until all are there."""
    ledger, settings = outbox.ledger, client.settings
    attempts = attempts_of(settings)
    while not ledger.done:
        attempts.begin()
        metadata = settings.call_metadata((), 0)
        call: Any = client._connected().attend_stream(metadata=metadata)
        sender = asyncio.ensure_future(outbox.send(call, ledger.new_sender()))
        try:
            while True:
                message = await call.read()
                if message is grpc.aio.EOF:
                    break
                attempts = attempts_of(settings)
                answer = settled(ledger.settle, message)
                outbox.has_work.set()
                if answer is not None:
                    yield answer
            error: AttndError = Unreachable("the stream ended early", "UNAVAILABLE")
        except grpc.RpcError as failed:
            error = from_rpc(failed)
            if error.text == _WRITE_FAILED:
                error = Unreachable("the connection ended", "UNAVAILABLE")
        except asyncio.CancelledError:
            if client._ended_it():
                raise Cancelled("the client was closed", "CANCELLED") from None
            raise
        finally:
            call.cancel()
            await _ended(sender)
        if ledger.done:
            return
        wait = attempts.wait_after(error)
        if wait is None:
            raise error
        await asyncio.sleep(wait)
