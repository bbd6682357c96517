"""The client for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import Any, AsyncGenerator, Callable, List, Optional, Sequence, Tuple, Union

import grpc
import grpc.aio

from attnd import base, ragged, sharded
from attnd.async_stream import Source, run_stream
from attnd.channel import Settings
from attnd.errors import Cancelled, DeadlineExceeded, NotServed, from_rpc
from attnd.request import Request, request
from attnd.result import Attention, attention
from attnd.retry import Attempts
from attnd.stream import Answer
from attnd.v1 import attention_pb2, attention_pb2_grpc

_Extra = Sequence[Tuple[str, Union[str, bytes]]]


class _Connection:
    """A channel of one event loop and its methods."""

    def __init__(self, settings: Settings) -> None:
        target, options = settings.target(), settings.options()
        if settings.tls is None:
            self.channel = grpc.aio.insecure_channel(target, options)
        else:
            self.channel = grpc.aio.secure_channel(
                target, settings.tls.credentials(), options
            )
        self.loop = asyncio.get_running_loop()
        self.slots = asyncio.Semaphore(settings.max_in_flight)
        make_stub: Any = attention_pb2_grpc.AttentionScoringStub
        stub = make_stub(self.channel)
        self.list_encodings = stub.ListEncodings
        self.get_server_info = stub.GetServerInfo
        service = (
            "/"
            + attention_pb2.DESCRIPTOR.services_by_name["AttentionScoring"].full_name
        )
        self.attend: Any = self.channel.unary_unary(service + "/Attend")
        self.attend_stream: Any = self.channel.stream_stream(service + "/AttendStream")
        self.estimate: Any = self.channel.unary_unary(
            service + "/Estimate",
            response_deserializer=attention_pb2.EstimateResponse.FromString,
        )
        self.health: Any = self.channel.unary_unary(base.HEALTH_CHECK)


class AsyncClient(base.Base):
    """attnd.Client for asyncio, with the same settings.

        async with attnd.AsyncClient("attnd.example:50051") as client:
            answer = await client.attend(q, k, v, encoding="rope")

    Any number of tasks may share a client; at most `max_in_flight` calls are on
    their way at a time, so gathering a million calls does not hold a million
    messages. Cancelling a task cancels its call, on the server too. Connections
    belong to the running event loop; in another loop (or after a fork) the
    client connects afresh.
    """

    def _forget(self) -> None:
        self._connection: Optional[_Connection] = None
        self._server_limit: Optional[int] = None
        self._closed = False

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the connections; calls under way fail with Cancelled."""
        self._closed = True
        connection, self._connection = self._connection, None
        if connection is not None and connection.loop is asyncio.get_running_loop():
            await connection.channel.close()

    def _ended_it(self) -> bool:
        """Whether a call was cancelled by close(), not with its caller's task."""
        task: Any = asyncio.current_task()
        cancelling = getattr(task, "cancelling", None)  # from Python 3.11 on
        return self._closed and not (cancelling and cancelling())

    def _connected(self) -> _Connection:
        if self._closed:
            raise RuntimeError(f"{self!r} is closed")
        connection = self._connection
        if connection is None or connection.loop is not asyncio.get_running_loop():
            connection = self._connection = _Connection(self.settings)
        return connection

    async def _call(
        self,
        method: Callable[[_Connection], Any],
        message: Callable[[], Any],
        timeout: Optional[float],
        metadata: _Extra = (),
    ) -> Any:
        settings = self.settings
        attempts = Attempts(
            settings.timeout if timeout is None else timeout,
            settings.max_attempts,
            settings.reconnect,
        )
        slots = self._connected().slots
        try:
            await asyncio.wait_for(slots.acquire(), attempts.left())
        except asyncio.TimeoutError:
            raise DeadlineExceeded(
                f"all {settings.max_in_flight} calls of max_in_flight stayed busy",
                "DEADLINE_EXCEEDED",
            ) from None
        try:
            # Not before its turn: a waiting call holds no message.
            encoded = message()
            while True:
                left = attempts.begin()
                headers = settings.call_metadata(metadata, attempts.made - 1)
                try:
                    return await method(self._connected())(
                        encoded, timeout=left, metadata=headers
                    )
                except grpc.RpcError as failed:
                    error = from_rpc(failed)
                except asyncio.CancelledError:
                    if self._ended_it():
                        raise Cancelled("the client was closed", "CANCELLED") from None
                    raise
                wait = attempts.wait_after(error)
                if wait is None or self._closed:
                    raise error
                await asyncio.sleep(wait)
        finally:
            slots.release()

    @base.takes_request(request)
    async def attend(self, request: Request) -> Attention:
        """Computes attention."""
        return await self.send(request)

    async def send(self, request: Request) -> Attention:
        """attend() of a request that was made before by attnd.request()."""
        await self._check_size(request.nbytes)
        message = await self._call(
            lambda on: on.attend, request.to_bytes, request.timeout, request.metadata
        )
        return attention(message, request.flat, request.time_dtype)

    @base.takes_request(request)
    async def estimate(self, request: Request) -> attention_pb2.EstimateResponse:
        """What the request would cost, without sending its arrays."""
        answer: attention_pb2.EstimateResponse = await self._call(
            lambda on: on.estimate,
            lambda: base.estimate_bytes(request),
            request.timeout,
            request.metadata,
        )
        return answer

    def stream(
        self,
        requests: Source,
        *,
        max_in_flight: Optional[int] = None,
        ordered: bool = False,
    ) -> AsyncGenerator[Answer, None]:
        """Sends requests as they come and yields their answers as they finish.

            async for answer in client.stream(source()):
                answer.unwrap().output

        `requests` is an async iterable, or an iterable that never blocks. It is
        read only while fewer than `max_in_flight` (None: what the server allows per
        stream) wait for their answer to be taken, so a fast source is held back.
        Each request gives exactly one Answer, `ordered` or as they finish; a refused
        one carries its error and does not end the stream. A broken connection is
        made anew and what had no answer is sent again.

        Cancelling the task that reads the answers cancels the stream, on the server
        too. To leave the loop early and end it at once, use contextlib.aclosing().
        """
        return run_stream(self, requests, max_in_flight, ordered)

    async def attend_ragged(
        self,
        queries: Sequence[Any],
        keys: Sequence[Any],
        values: Sequence[Any],
        **options: Any,
    ) -> List[Attention]:
        """Attention of sequences of different lengths, in one call; see
        Client.attend_ragged()."""
        made = ragged.ragged(queries, keys, values, **options)
        return made.split(await self.send(made.request))

    async def attend_sharded(
        self,
        query: Any,
        key: Any,
        value: Any,
        *,
        key_chunk: int,
        endpoints: Optional[Sequence[Union[str, "AsyncClient"]]] = None,
        **options: Any,
    ) -> Attention:
        """Attention over more keys than one call, or one machine, can take; see
        Client.attend_sharded()."""
        makers = sharded.shards(query, key, value, key_chunk, **options)
        async with contextlib.AsyncExitStack() as stack:
            clients = [
                (
                    await stack.enter_async_context(self._towards(endpoint))
                    if isinstance(endpoint, str)
                    else endpoint
                )
                for endpoint in endpoints or [self]
            ]
            pieces = await sharded.send_all_async(clients, makers)
        return sharded.merged(pieces, options.get("layout", "bhld"))

    def _towards(self, endpoint: str) -> "AsyncClient":
        client = AsyncClient.__new__(AsyncClient)
        client._adopt(replace(self.settings, endpoints=endpoint))
        return client

    async def list_encodings(
        self,
        *names: str,
        head_dim: int = 0,
        query_heads: int = 0,
        kv_heads: int = 0,
        length: int = 0,
    ) -> Sequence[Any]:
        """The configured encodings (attnd.v1.ResolvedEncoding), resolved for the
        given sizes (`length`: keys of a sequence); all of them without names."""
        message = attention_pb2.ListEncodingsRequest(
            names=names,
            head_dim=head_dim,
            query_heads=query_heads,
            kv_heads=kv_heads,
            length=length,
        )
        answer = await self._call(lambda on: on.list_encodings, lambda: message, None)
        encodings: Sequence[Any] = answer.encodings
        return encodings

    async def server_info(self) -> attention_pb2.GetServerInfoResponse:
        """Version, limits, workers, configuration of the server."""
        message = attention_pb2.GetServerInfoRequest()
        info: attention_pb2.GetServerInfoResponse = await self._call(
            lambda on: on.get_server_info, lambda: message, None
        )
        return info

    async def health(self, service: str = "") -> str:
        """ "SERVING" or "NOT_SERVING", by the standard health protocol."""
        message = base.health_request(service)
        answer = await self._call(lambda on: on.health, lambda: message, None)
        return base.health_answer(answer)

    async def _check_size(self, nbytes: int) -> None:
        self._refuse_above(nbytes, self.settings.own_limit, "the client's")
        if nbytes <= base.ASK_LIMIT_ABOVE_BYTES:
            return
        limit = self._server_limit
        if limit is None or nbytes > limit:
            try:
                limit = (await self.server_info()).limits.message_bytes
            except NotServed:
                return
            self._server_limit = limit
        self._refuse_above(nbytes, limit, "the server's")
