"""The client that blocks."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import (
    Any,
    Callable,
    Iterable,
    Iterator,
    List,
    Optional,
    Sequence,
    Tuple,
    Union,
)

import grpc

from attnd import base, ragged, sharded
from attnd import series as series_functions
from attnd.blocking_stream import run_stream
from attnd.channel import Settings
from attnd.durations import Duration
from attnd.forking import before_connecting, gate
from attnd.errors import AttndError, Cancelled, DeadlineExceeded, NotServed, from_rpc
from attnd.request import Request, request
from attnd.result import Attention, attention
from attnd.retry import Attempts
from attnd.stream import Answer
from attnd.v1 import attention_pb2, attention_pb2_grpc

_Extra = Sequence[Tuple[str, Union[str, bytes]]]


class _Connection:
    """A channel and its methods; bytes in and out where tensors travel."""

    def __init__(self, settings: Settings) -> None:
        target, options = settings.target(), settings.options()
        if settings.tls is None:
            self.channel = grpc.insecure_channel(target, options)
        else:
            self.channel = grpc.secure_channel(
                target, settings.tls.credentials(), options
            )
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


class Client(base.Base):
    """Connections to one attention service.

        with attnd.Client("attnd.example:50051") as client:
            answer = client.attend(q, k, v, query_time=tq, key_time=tk,
                                   encoding="rope", causal=True, window="36h")
            answer.output

    endpoints        "host:port", "unix:/path" or a gRPC target name; a name with
                     many addresses ("dns:///attnd:50051") is balanced over all
                     of them. Several addresses as a list
    timeout          seconds for a whole call, waits and retries included, unless
                     the call says otherwise
    max_attempts     calls in all when the server refuses and names a delay
    reconnect        seconds for which a call that found no server, or lost it,
                     tries again; 0: not at all
    max_in_flight    calls at a time; further ones wait for their turn
    message_bytes    own bound on messages; None: what the server allows, which it
                     is asked for before a first large request
    tls              attnd.Tls(); None: plain text
    metadata         sent with every call: {"authorization": "Bearer ..."}
    keepalive, keepalive_timeout
                     seconds between pings of a busy connection, and for the answer
    health_checked   leave out endpoints that do not report SERVING
    http_proxy       go through the proxy of the environment

    Calls block and raise attnd.AttndError; see attnd.errors for what to do about
    each. A call is repeated when the server asks for it (after its delay) and
    when the connection failed; an answer is returned once.

    Threads may share a client. Processes may too: it can be pickled, and after a
    fork parent and child connect afresh by themselves. Connections are made by the
    first call.
    """

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(self.settings.max_in_flight)
        self._connection: Optional[_Connection] = None
        self._server_limit: Optional[int] = None
        self._closed = False

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connections; calls under way fail with Cancelled."""
        with self._lock:
            self._closed = True
            connection, self._connection = self._connection, None
        if connection is not None:
            with gate.entry():
                connection.channel.close()

    def _disconnect(self) -> None:
        # Who holds the lock waits for the fork's end.
        if self._lock.acquire(blocking=False):
            connection, self._connection = self._connection, None
            self._lock.release()
            if connection is not None:
                connection.channel.close()

    def _connected(self) -> _Connection:
        with self._lock:
            if self._closed:
                raise RuntimeError(f"{self!r} is closed")
            if self._connection is None:
                with gate.entry():
                    before_connecting()
                    self._connection = _Connection(self.settings)
            return self._connection

    def _call(
        self,
        method: Callable[[_Connection], Any],
        message: Any,
        timeout: Optional[float],
        metadata: _Extra = (),
    ) -> Any:
        settings = self.settings
        attempts = Attempts(
            settings.timeout if timeout is None else timeout,
            settings.max_attempts,
            settings.reconnect,
        )
        slots = self._slots
        if not slots.acquire(timeout=max(0.0, attempts.left())):
            raise DeadlineExceeded(
                f"all {settings.max_in_flight} calls of max_in_flight stayed busy",
                "DEADLINE_EXCEEDED",
            )
        try:
            while True:
                left = attempts.begin()
                headers = settings.call_metadata(metadata, attempts.made - 1)
                try:
                    return self._attempt(method, message, left, headers)
                except grpc.RpcError as failed:
                    error = from_rpc(failed)
                wait = attempts.wait_after(error)
                if wait is None or self._closed:
                    raise error
                self._pause(wait, error)
        finally:
            slots.release()

    def _attempt(
        self,
        method: Callable[[_Connection], Any],
        message: Any,
        timeout: float,
        headers: _Extra,
    ) -> Any:
        with gate.call():
            connection = self._connected()
            with gate.entry():
                call = method(connection).future(
                    message, timeout=timeout, metadata=headers
                )
            return self._wait_for(call)

    def _wait_for(self, call: Any) -> Any:
        try:
            return call.result()
        except grpc.FutureCancelledError:
            raise Cancelled("the client was closed", "CANCELLED") from None
        except BaseException:  # KeyboardInterrupt: nobody waits any longer
            call.cancel()
            raise

    def _pause(self, seconds: float, error: AttndError) -> None:
        """Waits, after a lost connection no longer than until there is a new one."""
        if error.retry_delay is not None:
            time.sleep(seconds)
            return
        # Watched, because some versions of gRPC make no connections while nobody
        # waits in it; a channel that never left READY proves nothing.
        lost, found = threading.Event(), threading.Event()

        def watch(state: grpc.ChannelConnectivity) -> None:
            if state is not grpc.ChannelConnectivity.READY:
                lost.set()
            elif lost.is_set():
                found.set()

        with gate.call():
            channel = self._connected().channel
            with gate.entry():
                channel.subscribe(watch, try_to_connect=True)
        found.wait(seconds)
        channel.unsubscribe(watch)

    @base.takes_request(request)
    def attend(self, request: Request) -> Attention:
        """Computes attention and waits for the answer."""
        return self.send(request)

    def send(self, request: Request) -> Attention:
        """attend() of a request that was made before by attnd.request()."""
        self._check_size(request.nbytes)
        message = self._call(
            lambda on: on.attend, request.to_bytes(), request.timeout, request.metadata
        )
        return attention(message, request.flat, request.time_dtype)

    @base.takes_request(request)
    def estimate(self, request: Request) -> attention_pb2.EstimateResponse:
        """What the request would cost, without sending its arrays."""
        answer: attention_pb2.EstimateResponse = self._call(
            lambda on: on.estimate,
            base.estimate_bytes(request),
            request.timeout,
            request.metadata,
        )
        return answer

    def stream(
        self,
        requests: Iterable[Request],
        *,
        max_in_flight: Optional[int] = None,
        ordered: bool = False,
    ) -> Iterator[Answer]:
        """Sends requests as they come and yields their answers as they finish.

        `requests` is read only while fewer than `max_in_flight` (None: what the
        server allows per stream) wait for their answer, so a fast source is held
        back. Each request gives exactly one Answer, `ordered` or as they finish;
        a refused one carries its error and does not end the stream. A broken
        connection is made anew and what had no answer is sent again.
        """
        return run_stream(self, requests, max_in_flight, ordered)

    def attend_ragged(
        self,
        queries: Sequence[Any],
        keys: Sequence[Any],
        values: Sequence[Any],
        **options: Any,
    ) -> List[Attention]:
        """Attention of sequences of different lengths, in one call.

        queries, keys, values    lists of arrays [L, D], or [H, L, D] with heads
        query_times, key_times   lists of times [L], or none
        key_valid, value_observed    lists too: [L], [L, Dv] by key
        options                  as of attnd.request, for all sequences; not bias,
                                 gates, clocks, lengths, offsets, layout

        One answer for each sequence, of its own lengths; indices of `top_k` count
        its own keys. The sequences travel packed, without padding, unless
        `outputs` has "scores" or "weights": then they are padded to the longest,
        so put sequences of like lengths together. `final_state` is that of all.
        """
        made = ragged.ragged(queries, keys, values, **options)
        return made.split(self.send(made.request))

    def attend_sharded(
        self,
        query: Any,
        key: Any,
        value: Any,
        *,
        key_chunk: int,
        endpoints: Optional[Sequence[Union[str, "Client"]]] = None,
        **options: Any,
    ) -> Attention:
        """Attention over more keys than one call, or one machine, can take.

        Keys are cut into pieces of `key_chunk` rows that are computed in parallel
        by `endpoints` (clients or addresses; None: this client, which balances
        over its own) and merged by their lse: the answer of one pass over all
        keys, within its accuracy. It has `output` and `lse`, in float32, and the
        statistics of all calls added up.

        Arguments are those of attnd.request, except what looks at all keys at
        once: gates, prefix, window_keys, lengths, offsets, causal="index", linear
        attention, other outputs; and encodings whose query temperature counts
        keys.
        """
        makers = sharded.shards(query, key, value, key_chunk, **options)
        own = [
            self._towards(endpoint)
            for endpoint in endpoints or ()
            if isinstance(endpoint, str)
        ]
        clients = [*own, *(e for e in endpoints or () if isinstance(e, Client))]
        try:
            pieces = sharded.send_all(clients or [self], makers)
        finally:
            for client in own:
                client.close()
        return sharded.merged(pieces, options.get("layout", "bhld"))

    def _towards(self, endpoint: str) -> "Client":
        client = Client.__new__(Client)
        client._adopt(replace(self.settings, endpoints=endpoint))
        return client

    def interpolate(
        self,
        series: Any,
        at: Any = None,
        *,
        encoding: series_functions.Encodings,
        weights: series_functions.Weights = None,
        trend: int = 2,
        causal: bool = False,
        window: Optional[Duration] = None,
        naive: Optional[str] = None,
    ) -> Any:
        """Estimates of a pandas series (or of each column of a frame) at any times.

        at        a DatetimeIndex, or a frequency ("7D") from the first to the last
                  time; None: the series itself with its missing values filled
        encoding  a configured one, or several for passes over what is left over:
                  a wide one finds the seasons, a narrow one the level nearby
        weights   how much each timed block of the encoding counts, for example
                  one number per rotation plane; a list of such lists (or None)
                  with several encodings; None: 8, 4, 2, ...
        trend     degree of the polynomial that is taken out first; -1: none
        causal    only samples at or before the wanted time weigh in (the trend is
                  still that of all)
        window    no samples further away than that: "90d"
        naive     the zone of an index without one

        Missing values (NaN) take no part. NaN comes back where no sample is seen.
        """
        return series_functions.interpolate(
            self,
            series,
            at,
            encoding=encoding,
            weights=weights,
            trend=trend,
            causal=causal,
            window=window,
            naive=naive,
        )

    def leave_one_out(
        self,
        series: Any,
        *,
        encoding: series_functions.Encodings,
        weights: series_functions.Weights = None,
        trend: int = 2,
        causal: bool = False,
        window: Optional[Duration] = None,
        naive: Optional[str] = None,
        hide: Any = None,
    ) -> Any:
        """What the other samples say about each sample; as interpolate().

        A sample's own time is hidden from it, and the samples marked in `hide`
        (bool, like the series) are hidden from all. Without `causal` later samples
        weigh in like earlier ones.
        """
        return series_functions.leave_one_out(
            self,
            series,
            encoding=encoding,
            weights=weights,
            trend=trend,
            causal=causal,
            window=window,
            naive=naive,
            hide=hide,
        )

    def anomaly_scores(
        self,
        series: Any,
        *,
        encoding: series_functions.Encodings,
        weights: series_functions.Weights = None,
        trend: int = 2,
        causal: bool = False,
        window: Optional[Duration] = None,
        naive: Optional[str] = None,
        scale_samples: int = 101,
        hide: Any = None,
    ) -> Any:
        """How strange each sample is: its distance from what leave_one_out() says,
        in running standard deviations.

        The deviation is 1.4826 times the median absolute deviation of the
        residuals over `scale_samples` samples around, so that the anomalies
        themselves do not hide in it. Scores have the residual's sign; beyond about
        5 a sample is worth a look. A second call with the first one's finds in
        `hide` keeps these from spoiling their neighbours' estimates.
        """
        return series_functions.anomaly_scores(
            self,
            series,
            encoding=encoding,
            weights=weights,
            trend=trend,
            causal=causal,
            window=window,
            naive=naive,
            scale_samples=scale_samples,
            hide=hide,
        )

    def list_encodings(
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
        encodings: Sequence[Any] = self._call(
            lambda on: on.list_encodings, message, None
        ).encodings
        return encodings

    def server_info(self) -> attention_pb2.GetServerInfoResponse:
        """Version, limits, workers, configuration of the server."""
        info: attention_pb2.GetServerInfoResponse = self._call(
            lambda on: on.get_server_info, attention_pb2.GetServerInfoRequest(), None
        )
        return info

    def health(self, service: str = "") -> str:
        """ "SERVING" or "NOT_SERVING", by the standard health protocol."""
        message = base.health_request(service)
        return base.health_answer(self._call(lambda on: on.health, message, None))

    def _check_size(self, nbytes: int) -> None:
        """TooLarge before megabytes travel in vain."""
        self._refuse_above(nbytes, self.settings.own_limit, "the client's")
        if nbytes <= base.ASK_LIMIT_ABOVE_BYTES:
            return
        limit = self._server_limit
        if limit is None or nbytes > limit:
            # Asked again before a refusal: it may be another server by now.
            try:
                limit = self.server_info().limits.message_bytes
            except NotServed:
                return
            self._server_limit = limit
        self._refuse_above(nbytes, limit, "the server's")
