"""What refusals become, and what is tried again."""

import math
import pickle
import threading

import grpc
import numpy as np
import pytest

import attnd
from attnd.errors import AttndError, from_status
from attnd.retry import JITTER, Attempts
from attnd.rpc.v1 import error_details_pb2 as details
from attnd.v1 import attention_pb2
from running import Scripted, refuse, retry_after, status_bytes

Q = np.zeros((1, 1, 2, 2), np.float32)
CODE = grpc.StatusCode


def answer():
    message = attention_pb2.AttendResponse(request_id="answered")
    message.output.dtype = 1
    message.output.shape.extend((1, 1, 2, 2))
    message.output.data = bytes(16)
    return message.SerializeToString()


def test_every_code_has_its_class():
    expected = {
        CODE.INVALID_ARGUMENT: (attnd.InvalidRequest, ValueError),
        CODE.NOT_FOUND: (attnd.UnknownEncoding, LookupError),
        CODE.UNIMPLEMENTED: (attnd.NotServed, NotImplementedError),
        CODE.PERMISSION_DENIED: (attnd.NotAllowed, PermissionError),
        CODE.UNAUTHENTICATED: (attnd.NotAllowed, PermissionError),
        CODE.RESOURCE_EXHAUSTED: (attnd.TooLarge, AttndError),
        CODE.UNAVAILABLE: (attnd.Unreachable, ConnectionError),
        CODE.DEADLINE_EXCEEDED: (attnd.DeadlineExceeded, TimeoutError),
        CODE.CANCELLED: (attnd.Cancelled, AttndError),
        CODE.INTERNAL: (attnd.InternalError, AttndError),
        CODE.DATA_LOSS: (AttndError, Exception),
    }
    for code, (own, builtin) in expected.items():
        error = from_status(code.name, "words", b"")
        assert type(error) is own and isinstance(error, builtin)
        assert (error.code, error.text) == (code.name, "words")
        assert str(error) == f"{code.name}: words"


def test_a_delay_tells_for_now_from_for_good():
    for code, now in (
        (CODE.RESOURCE_EXHAUSTED, attnd.QuotaExceeded),
        (CODE.UNAVAILABLE, attnd.Overloaded),
    ):
        error = from_status(code.name, "", status_bytes(code, "", retry_after(1.5)))
        assert type(error) is now and error.retry_delay == 1.5


def test_all_details_arrive_and_survive_pickling():
    status = status_bytes(
        CODE.INVALID_ARGUMENT,
        "words",
        details.BadRequest(
            field_violations=[{"field": "key.shape", "description": "is 3"}]
        ),
        details.QuotaFailure(violations=[{"subject": "t1", "description": "used"}]),
        details.ResourceInfo(
            resource_type="limit", resource_name="rows", description="9"
        ),
        details.ErrorInfo(reason="INVALID", metadata={"a": "b"}),
    )
    error = from_status("INVALID_ARGUMENT", "words", status)
    error.attempts = 3
    for seen in (error, pickle.loads(pickle.dumps(error))):
        assert type(seen) is attnd.InvalidRequest and str(seen) == str(error)
        assert seen.field_violations == [attnd.FieldViolation("key.shape", "is 3")]
        assert seen.quota_violations == [attnd.QuotaViolation("t1", "used")]
        assert seen.resource == attnd.Resource("limit", "rows", "9")
        assert (seen.reason, seen.metadata) == ("INVALID", {"a": "b"})
        assert seen.attempts == 3 and seen.retry_delay is None


def test_details_that_cannot_be_read_are_passed_over():
    for garbage in (b"\xff", b"\x1a\x05abc"):
        assert from_status("INTERNAL", "words", garbage).text == "words"
    bad = details.Status()
    bad.details.add(type_url="type.googleapis.com/google.rpc.RetryInfo", value=b"\xff")
    assert from_status("UNAVAILABLE", "", bad.SerializeToString()).retry_delay is None


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def attempts(timeout=100.0, max_attempts=4, reconnect=10.0, jitter=0.5):
    clock = Clock()
    return clock, Attempts(timeout, max_attempts, reconnect, clock, lambda: jitter)


def refused(delay):
    error = attnd.Overloaded("busy", "UNAVAILABLE")
    error.retry_delay = delay
    return error


def test_refusals_wait_as_told_and_end_after_max_attempts():
    for jitter in (0.0, 0.999):
        _, tries = attempts(jitter=jitter)
        for made in (1, 2, 3):
            tries.begin()
            assert tries.made == made
            assert tries.wait_after(refused(2.0)) == 2.0 * (1 + JITTER * jitter)
        tries.begin()
        last = refused(2.0)
        assert tries.wait_after(last) is None
        assert last.attempts == 4


def test_no_wait_reaches_the_deadline():
    clock, tries = attempts(timeout=2.0, jitter=0.0)
    tries.begin()
    assert tries.wait_after(refused(2.0)) is None
    assert tries.wait_after(refused(1.9)) == 1.9
    clock.now = 2.0
    with pytest.raises(attnd.DeadlineExceeded):
        tries.begin()


def test_lost_connections_are_sought_for_a_time_with_growing_waits():
    clock, tries = attempts(jitter=0.0, reconnect=10.0)
    lost = attnd.Unreachable("refused", "UNAVAILABLE")
    waits = []
    while True:
        tries.begin()
        wait = tries.wait_after(lost)
        if wait is None:
            break
        waits.append(wait)
        clock.now += wait
    assert waits[:6] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0]
    assert set(waits[5:]) == {1.0} and 10.0 <= sum(waits) <= 11.0
    _, never = attempts(reconnect=0.0)
    never.begin()
    assert never.wait_after(lost) is None


def test_nothing_else_is_tried_again():
    for code in CODE:
        if code in (CODE.OK, CODE.UNAVAILABLE, CODE.CANCELLED):
            continue
        _, tries = attempts()
        tries.begin()
        assert tries.wait_after(from_status(code.name, "", b"")) is None, code


@pytest.mark.parametrize("code", [CODE.UNAVAILABLE, CODE.RESOURCE_EXHAUSTED])
def test_a_client_comes_back_when_told_and_says_so(code):
    def script(path, message, context):
        if len(server.calls) < 3:
            refuse(context, code, "not now", retry_after(0.01))
        return answer()

    with Scripted(script) as server, attnd.Client(server.target) as client:
        assert client.attend(Q, Q, Q).request_id == "answered"
        before = [call[2].get("x-attnd-previous-attempts") for call in server.calls]
        assert before == [None, "1", "2"]
        assert len({call[1] for call in server.calls}) == 1


def test_a_client_gives_up_with_the_refusal_itself():
    def script(path, message, context):
        refuse(
            context,
            CODE.UNAVAILABLE,
            "queue full",
            retry_after(0.001),
            details.ErrorInfo(reason="QUEUE_FULL"),
        )

    with Scripted(script) as server:
        with attnd.Client(server.target, max_attempts=3) as client:
            with pytest.raises(attnd.Overloaded, match="queue full") as caught:
                client.attend(Q, Q, Q)
        assert len(server.calls) == caught.value.attempts == 3
        assert caught.value.reason == "QUEUE_FULL"


@pytest.mark.parametrize(
    "code",
    [c for c in CODE if c not in (CODE.OK, CODE.UNAVAILABLE, CODE.CANCELLED)],
)
def test_a_client_does_not_repeat_what_would_fail_again(code):
    def script(path, message, context):
        refuse(context, code, "no")

    with Scripted(script) as server, attnd.Client(server.target) as client:
        with pytest.raises(AttndError, match="no") as caught:
            client.attend(Q, Q, Q)
        assert caught.value.code == code.name
        assert len(server.calls) == 1


def test_no_server_is_unreachable_after_the_time_for_reconnecting():
    with attnd.Client("127.0.0.1:1", reconnect=0.3, timeout=30) as client:
        with pytest.raises(attnd.Unreachable) as caught:
            client.health()
    assert caught.value.attempts > 1


def test_the_deadline_counts_waiting_for_a_turn():
    entered, leave = threading.Event(), threading.Event()

    def script(path, message, context):
        entered.set()
        leave.wait(20)
        return answer()

    with Scripted(script) as server:
        with attnd.Client(server.target, max_in_flight=1) as client:
            busy = threading.Thread(target=client.attend, args=(Q, Q, Q))
            busy.start()
            assert entered.wait(20)
            with pytest.raises(attnd.DeadlineExceeded, match="max_in_flight"):
                client.attend(Q, Q, Q, timeout=0.05)
            leave.set()
            busy.join()
        assert len(server.calls) == 1


def test_settings_that_cannot_work_are_refused():
    for wrong in (
        {"timeout": 0},
        {"timeout": math.nan},
        {"max_attempts": 0},
        {"max_in_flight": 0},
        {"keepalive": 1},
        {"message_bytes": 2**31},
        {"endpoints": []},
        {"endpoints": ["a:1", "b:1"]},
    ):
        with pytest.raises(ValueError, match=f"^{next(iter(wrong))}: "):
            attnd.Client(**wrong)
    with pytest.raises(ValueError, match="belong together"):
        attnd.Tls(private_key="x")


def test_an_unknown_argument_is_a_type_error():
    with attnd.Client() as client, pytest.raises(TypeError, match="windw"):
        client.attend(Q, Q, Q, windw="36h")
