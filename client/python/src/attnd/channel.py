"""How a client connects: its settings, and channels made of them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import grpc

# gRPC's own bound on a message; the server's limit is asked for and is smaller.
MAX_MESSAGE_BYTES = 2**31 - 1
# Servers close connections that ping more often (too_many_pings).
MIN_KEEPALIVE_SECONDS = 30.0


@dataclass(frozen=True)
class Tls:
    """Encryption and identity, as PEM text or bytes (not file names).

    root_certificates   authorities to trust; None: those of the system
    certificate_chain, private_key
                        own identity for servers that ask for one; both or none
    server_name         name that the server's certificate must carry; None: the
                        endpoint's
    """

    root_certificates: Optional[Union[str, bytes]] = None
    certificate_chain: Optional[Union[str, bytes]] = None
    private_key: Optional[Union[str, bytes]] = field(default=None, repr=False)
    server_name: Optional[str] = None

    def __post_init__(self) -> None:
        if (self.certificate_chain is None) != (self.private_key is None):
            raise ValueError("tls: certificate_chain and private_key belong together")

    def credentials(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(
            *(
                text.encode() if isinstance(text, str) else text
                for text in (
                    self.root_certificates,
                    self.private_key,
                    self.certificate_chain,
                )
            )
        )


@dataclass(frozen=True)
class Settings:
    """What Client and AsyncClient are made with; see Client."""

    endpoints: Union[str, Sequence[str]] = "127.0.0.1:50051"
    timeout: float = 60.0
    max_attempts: int = 4
    reconnect: float = 10.0
    max_in_flight: int = 32
    message_bytes: Optional[int] = None
    tls: Optional[Tls] = None
    metadata: Mapping[str, Union[str, bytes]] = field(default_factory=dict)
    keepalive: float = 60.0
    keepalive_timeout: float = 20.0
    health_checked: bool = True
    http_proxy: bool = False

    def __post_init__(self) -> None:
        for name, least in (
            ("max_attempts", 1),
            ("max_in_flight", 1),
            ("reconnect", 0),
            ("keepalive", MIN_KEEPALIVE_SECONDS),
        ):
            if not getattr(self, name) >= least:
                raise ValueError(
                    f"{name}: {getattr(self, name)!r}, expected at least {least}"
                )
        if not self.timeout > 0:
            raise ValueError(f"timeout: {self.timeout!r}, expected more than 0")
        if self.message_bytes is not None and not (
            1 <= self.message_bytes <= MAX_MESSAGE_BYTES
        ):
            raise ValueError(
                f"message_bytes: {self.message_bytes!r}, expected 1 to 2^31 - 1"
            )
        self.target()

    def target(self) -> str:
        """gRPC's name for the endpoints."""
        if isinstance(self.endpoints, str):
            endpoints = [self.endpoints]
        else:
            endpoints = list(self.endpoints)
        if not endpoints or not all(endpoints):
            raise ValueError('endpoints: none given, expected e.g. "127.0.0.1:50051"')
        if len(endpoints) == 1:
            return endpoints[0]
        for scheme, pattern in (("ipv4:", r"[\d.]+:\d+"), ("ipv6:", r"\[.*\]:\d+")):
            if all(re.fullmatch(pattern, endpoint) for endpoint in endpoints):
                return scheme + ",".join(endpoints)
        raise ValueError(
            f"endpoints: {endpoints}: several must all be IPv4 or all be IPv6 addresses "
            "with a port; for names use one DNS name that resolves to all of them"
        )

    @property
    def own_limit(self) -> int:
        return self.message_bytes or MAX_MESSAGE_BYTES

    def options(self) -> List[Tuple[str, Any]]:
        """Arguments of the channel."""
        largest = self.own_limit
        options: List[Tuple[str, Any]] = [
            ("grpc.max_send_message_length", largest),
            ("grpc.max_receive_message_length", largest),
            ("grpc.keepalive_time_ms", int(self.keepalive * 1000)),
            ("grpc.keepalive_timeout_ms", int(self.keepalive_timeout * 1000)),
            # Any number: a long computation sends no data, and a peer that
            # vanished meanwhile must still be noticed.
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.initial_reconnect_backoff_ms", 200),
            ("grpc.max_reconnect_backoff_ms", 2000),
            # A name is looked up when a connection ends; gRPC's own 30 s would keep
            # new replicas waiting.
            ("grpc.dns_min_time_between_resolutions_ms", 5000),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_http_proxy", int(self.http_proxy)),
            # gRPC repeats a call that no server has seen while it still holds all
            # of its bytes; its own default is 256 KiB.
            ("grpc.per_rpc_retry_buffer_size", largest),
            # A policy in DNS would break the promise of who retries and when.
            ("grpc.service_config_disable_resolution", 1),
            ("grpc.service_config", json.dumps(self.service_config())),
        ]
        if self.tls is not None and self.tls.server_name is not None:
            options.append(("grpc.ssl_target_name_override", self.tls.server_name))
        return options

    def service_config(self) -> Dict[str, Any]:
        """Balances over all addresses, leaving out those not SERVING.

        It has no retryPolicy: that would know neither the delay of an exhausted
        quota nor more than five attempts, and multiply with retry.py's.
        """
        config: Dict[str, Any] = {"loadBalancingConfig": [{"round_robin": {}}]}
        if self.health_checked:
            config["healthCheckConfig"] = {"serviceName": ""}
        return config

    def call_metadata(
        self, extra: Sequence[Tuple[str, Union[str, bytes]]], attempts_before: int
    ) -> Tuple[Tuple[str, Union[str, bytes]], ...]:
        metadata = (*self.metadata.items(), *extra)
        if attempts_before:
            # So that a server can tell new work from repeated attempts.
            metadata += (("x-attnd-previous-attempts", str(attempts_before)),)
        return metadata
