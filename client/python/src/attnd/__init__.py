"""attnd: attention over real time, from Python.

    import attnd

    with attnd.Client("attnd.example:50051") as client:
        answer = client.attend(q, k, v, query_time=tq, key_time=tk,
                               encoding="rope", causal=True, window="36h")

Client and AsyncClient call the service; interpolate() and anomaly_scores() work
on pandas series; attend_ragged() and attend_sharded() take sequences of different
lengths and histories longer than one call.
"""

import os as _os

# gRPC reads this when it is imported. Without it a fork while calls are under way
# hangs the child or breaks the parent's connections.
_os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "1")

from attnd._version import __version__
from attnd.aio import AsyncClient
from attnd.arrays import BFloat16
from attnd.channel import Tls
from attnd.client import Client
from attnd.errors import (
    AttndError,
    Cancelled,
    DeadlineExceeded,
    FieldViolation,
    InternalError,
    InvalidRequest,
    NotAllowed,
    NotServed,
    Overloaded,
    QuotaExceeded,
    QuotaViolation,
    Resource,
    TooLarge,
    UnknownEncoding,
    Unreachable,
)
from attnd.linear import Linear, LinearState
from attnd.merging import merge_states
from attnd.request import Request, request
from attnd.result import Attention, Stats, TopK
from attnd.stream import Answer

__all__ = [
    "Answer",
    "AsyncClient",
    "Attention",
    "AttndError",
    "BFloat16",
    "Cancelled",
    "Client",
    "DeadlineExceeded",
    "FieldViolation",
    "InternalError",
    "InvalidRequest",
    "Linear",
    "LinearState",
    "NotAllowed",
    "NotServed",
    "Overloaded",
    "QuotaExceeded",
    "QuotaViolation",
    "Request",
    "Resource",
    "Stats",
    "Tls",
    "TooLarge",
    "TopK",
    "UnknownEncoding",
    "Unreachable",
    "__version__",
    "merge_states",
    "request",
]
