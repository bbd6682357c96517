"""The client for asyncio."""

from __future__ import annotations

import asyncio
from typing import Any, AsyncIterator, Callable, Optional, Sequence, Tuple, Union

import grpc
import grpc.aio

from attnd import base
from attnd.channel import Settings
from attnd.errors import DeadlineExceeded, NotServed, from_rpc
from attnd.request import Request, request
from attnd.result import Attention, attention
from attnd.retry import Attempts
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
        stub = attention_pb2_grpc.AttentionScoringStub(self.channel)
        self.list_encodings = stub.ListEncodings
        self.get_server_info = stub.GetServerInfo
        service = (
            "/"
            + attention_pb2.DESCRIPTOR.services_by_name["AttentionScoring"].full_name
        )
        self.attend = self.channel.unary_unary(service + "/Attend")
        self.estimate = self.channel.unary_unary(
            service + "/Estimate",
            response_deserializer=attention_pb2.EstimateResponse.FromString,
        )
        self.health = self.channel.unary_unary(base.HEALTH_CHECK)


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
        return await self._call(
            lambda on: on.estimate,
            lambda: base.estimate_bytes(request),
            request.timeout,
            request.metadata,
        )

    async def list_encodings(
        self, *names: str, head_dim: int = 0, query_heads: int = 0, kv_heads: int = 0
    ) -> Sequence[Any]:
        """The configured encodings (attnd.v1.ResolvedEncoding), resolved for the
        given sizes; all of them without names."""
        message = attention_pb2.ListEncodingsRequest(
            names=names, head_dim=head_dim, query_heads=query_heads, kv_heads=kv_heads
        )
        answer = await self._call(lambda on: on.list_encodings, lambda: message, None)
        return answer.encodings

    async def server_info(self) -> attention_pb2.GetServerInfoResponse:
        """Version, limits, workers, configuration of the server."""
        message = attention_pb2.GetServerInfoRequest()
        return await self._call(lambda on: on.get_server_info, lambda: message, None)

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
