"""What calls raise: one class for each thing a caller can do about it.

Arguments that are wrong before anything is sent raise ValueError or TypeError.
"""

from __future__ import annotations

import grpc
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Type

from google.protobuf.message import DecodeError

from attnd.rpc.v1 import error_details_pb2


@dataclass(frozen=True)
class FieldViolation:
    """A field of the request and what is wrong with it."""

    field: str
    description: str


@dataclass(frozen=True)
class QuotaViolation:
    """A quota that was used up."""

    subject: str
    description: str


@dataclass(frozen=True)
class Resource:
    """What an error is about: a limit, an encoding."""

    type: str
    name: str
    description: str


class AttndError(Exception):
    """A call that failed.

    code              name of the gRPC code: "INVALID_ARGUMENT"
    text              the server's (or gRPC's) words
    field_violations  every wrong field of the request
    quota_violations  quotas that are used up
    resource          the limit or the encoding that the error is about, or None
    reason, metadata  a constant to switch on ("QUEUE_FULL") and its figures
    retry_delay       seconds after which the server will look at the same
                      request again; None: it will not change its mind
    attempts          calls that were made
    """

    def __init__(self, text: str, code: str = "UNKNOWN") -> None:
        super().__init__(text)
        self.text = text
        self.code = code
        self.field_violations: List[FieldViolation] = []
        self.quota_violations: List[QuotaViolation] = []
        self.resource: Optional[Resource] = None
        self.reason = ""
        self.metadata: Dict[str, str] = {}
        self.retry_delay: Optional[float] = None
        self.attempts = 1

    def __str__(self) -> str:
        return f"{self.code}: {self.text}"

    def __reduce__(self) -> Any:
        # BaseException would keep the arguments alone.
        return (type(self), (self.text, self.code), self.__dict__)


class InvalidRequest(AttndError, ValueError):
    """INVALID_ARGUMENT: correct the fields in `field_violations`."""


class UnknownEncoding(AttndError, LookupError):
    """NOT_FOUND: no encoding of that name; the text lists the known ones."""


class NotServed(AttndError, NotImplementedError):
    """UNIMPLEMENTED: this server does not have that method."""


class NotAllowed(AttndError, PermissionError):
    """PERMISSION_DENIED or UNAUTHENTICATED: credentials (`tls`, `metadata`)."""


class TooLarge(AttndError):
    """RESOURCE_EXHAUSTED for good: `resource` has the limit; send less at a time."""


class QuotaExceeded(AttndError):
    """RESOURCE_EXHAUSTED for now, through all attempts: slow down."""


class Overloaded(AttndError):
    """UNAVAILABLE, queue full or draining, through all attempts: slow down."""


class Unreachable(AttndError, ConnectionError):
    """UNAVAILABLE: no connection, or no endpoint that reports SERVING."""


class DeadlineExceeded(AttndError, TimeoutError):
    """The time was over, waits included: allow more, or ask for less."""


class Cancelled(AttndError):
    """The call was given up."""


class InternalError(AttndError):
    """A fault of the server: report it with the server's log."""


_CLASSES: Dict[str, Type[AttndError]] = {
    "INVALID_ARGUMENT": InvalidRequest,
    "OUT_OF_RANGE": InvalidRequest,
    "NOT_FOUND": UnknownEncoding,
    "UNIMPLEMENTED": NotServed,
    "PERMISSION_DENIED": NotAllowed,
    "UNAUTHENTICATED": NotAllowed,
    "RESOURCE_EXHAUSTED": TooLarge,
    "UNAVAILABLE": Unreachable,
    "DEADLINE_EXCEEDED": DeadlineExceeded,
    "CANCELLED": Cancelled,
    "INTERNAL": InternalError,
}
_WITH_DELAY = {"RESOURCE_EXHAUSTED": QuotaExceeded, "UNAVAILABLE": Overloaded}

_DETAILS_KEY = "grpc-status-details-bin"


def from_rpc(error: grpc.RpcError) -> AttndError:
    """The typed error of a failed call, of grpc or of grpc.aio."""
    details = b""
    metadata: Any = error.trailing_metadata()
    for key, value in metadata or ():
        if key == _DETAILS_KEY:
            details = value
    return from_status(error.code().name, error.details() or "", details)


def from_status(code: str, text: str, details: bytes) -> AttndError:
    """The typed error of a status; `details` is a serialized google.rpc.Status.

    Details of unknown types, or that cannot be read, are passed over.
    """
    found = AttndError(text, code)
    try:
        status = error_details_pb2.Status.FromString(details)
        for detail in status.details:
            _read_detail(detail, found)
    except DecodeError:
        pass
    kinds = _CLASSES if found.retry_delay is None else {**_CLASSES, **_WITH_DELAY}
    error: AttndError = kinds.get(code, AttndError)(text, code)
    error.__dict__.update(found.__dict__)
    return error


def _read_detail(detail: Any, error: AttndError) -> None:
    kind = detail.type_url.rpartition("google.rpc.")[2]
    if kind == "RetryInfo":
        delay = error_details_pb2.RetryInfo.FromString(detail.value).retry_delay
        error.retry_delay = max(0.0, delay.seconds + delay.nanos * 1e-9)
    elif kind == "BadRequest":
        bad = error_details_pb2.BadRequest.FromString(detail.value)
        error.field_violations = [
            FieldViolation(v.field, v.description) for v in bad.field_violations
        ]
    elif kind == "QuotaFailure":
        quota = error_details_pb2.QuotaFailure.FromString(detail.value)
        error.quota_violations = [
            QuotaViolation(v.subject, v.description) for v in quota.violations
        ]
    elif kind == "ResourceInfo":
        info = error_details_pb2.ResourceInfo.FromString(detail.value)
        error.resource = Resource(
            info.resource_type, info.resource_name, info.description
        )
    elif kind == "ErrorInfo":
        reason = error_details_pb2.ErrorInfo.FromString(detail.value)
        error.reason = reason.reason
        error.metadata = dict(reason.metadata)
