"""What Client and AsyncClient have in common."""

from __future__ import annotations

import functools
import inspect
from typing import (
    Any,
    Callable,
    Concatenate,
    Mapping,
    Optional,
    ParamSpec,
    Sequence,
    TypeVar,
    Union,
)

from attnd.channel import Settings, Tls
from attnd.forking import forget_in_children
from attnd.errors import Resource, TooLarge
from attnd.request import Request, request
from attnd.v1 import attention_pb2

P = ParamSpec("P")
R = TypeVar("R")

# Requests above this are compared with the server's limit before they are sent;
# no server that is worth calling has a lower one.
ASK_LIMIT_ABOVE_BYTES = 4 << 20
HEALTH_CHECK = "/grpc.health.v1.Health/Check"
_HEALTH_NAMES = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}


def takes_request(
    build: Callable[P, Request]
) -> Callable[[Callable[[Any, Request], R]], Callable[Concatenate[Any, P], R]]:
    """Gives a method of a Request the arguments that the Request is made of."""

    def decorate(method: Callable[[Any, Request], R]) -> Callable[..., R]:
        @functools.wraps(method)
        def call(self: Any, *args: P.args, **kwargs: P.kwargs) -> R:
            return method(self, build(*args, **kwargs))

        own = inspect.signature(method)
        taken = inspect.signature(build)
        receiver = next(iter(own.parameters.values()))
        call.__signature__ = taken.replace(  # type: ignore[attr-defined]
            parameters=[receiver, *taken.parameters.values()],
            return_annotation=own.return_annotation,
        )
        call.__doc__ = f"{method.__doc__}\n\n    {build.__doc__}"
        return call

    return decorate


class Base:
    """Settings of a client; see attnd.Client for their meaning."""

    _connection: Any

    def __init__(
        self,
        endpoints: Union[str, Sequence[str]] = "127.0.0.1:50051",
        *,
        timeout: float = 60.0,
        max_attempts: int = 4,
        reconnect: float = 10.0,
        max_in_flight: int = 32,
        message_bytes: Optional[int] = None,
        tls: Optional[Tls] = None,
        metadata: Optional[Mapping[str, Union[str, bytes]]] = None,
        keepalive: float = 60.0,
        keepalive_timeout: float = 20.0,
        health_checked: bool = True,
        http_proxy: bool = False,
    ) -> None:
        self._adopt(
            Settings(
                endpoints,
                timeout,
                max_attempts,
                reconnect,
                max_in_flight,
                message_bytes,
                tls,
                dict(metadata or {}),
                keepalive,
                keepalive_timeout,
                health_checked,
                http_proxy,
            )
        )

    def _adopt(self, settings: Settings) -> None:
        self.settings = settings
        self._forget()
        forget_in_children(self)

    def _forget(self) -> None:
        """Forgets connections, which are another process', without closing them."""
        raise NotImplementedError

    def _disconnect(self) -> None:
        """Closes connections before a fork, where that can be done."""

    def __getstate__(self) -> Settings:
        return self.settings

    def __setstate__(self, settings: Settings) -> None:
        self._adopt(settings)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.settings.endpoints!r})"

    def _refuse_above(self, nbytes: int, limit: int, whose: str) -> None:
        if nbytes > limit:
            text = f"request: {nbytes} bytes, more than {whose} message_bytes = {limit}"
            error = TooLarge(text, "RESOURCE_EXHAUSTED")
            error.resource = Resource("limit", "message_bytes", text)
            error.attempts = 0
            raise error


def health_request(service: str) -> bytes:
    name = service.encode()
    # grpc.health.v1.HealthCheckRequest{service = 1}; its own generated messages
    # would clash with those of another package in this process.
    return b"\x0a" + bytes([len(name)]) + name if name else b""


def health_answer(message: bytes) -> str:
    # grpc.health.v1.HealthCheckResponse{status = 1}.
    return _HEALTH_NAMES.get(message[1] if len(message) > 1 else 0, "UNKNOWN")


def estimate_bytes(request: Request) -> bytes:
    """An EstimateRequest: the request without its data."""
    estimate = attention_pb2.EstimateRequest(request=request.outline())
    encoded: bytes = estimate.SerializeToString()
    return encoded
