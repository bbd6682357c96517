"""What a real server refuses, which class that is here, and what is tried again."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import attnd
from attnd.v1 import attention_pb2
from running import Attnd

Q = np.arange(8, dtype=np.float32).reshape(1, 1, 4, 2)


def raw(change):
    """A request that attnd.request() would not make."""
    message = attention_pb2.AttendRequest.FromString(attnd.request(Q, Q, Q).to_bytes())
    change(message)
    return attnd.Request(message, [])


def refusal(client, request, kind):
    """The error of a request that is refused at once, and no other after it."""
    with pytest.raises(kind) as caught:
        client.send(request)
    error = caught.value
    assert type(error) is kind and error.code != "UNKNOWN"
    assert error.attempts == 1 and error.retry_delay is None
    assert len(error.text.encode()) < 1024
    words = [violation.description for violation in error.field_violations]
    assert len("".join(words).encode()) < 4096
    client.attend(Q, Q, Q)
    return error


def test_faults_of_the_caller_are_named_and_not_tried_again(client):
    error = refusal(
        client, attnd.request(Q, Q, Q, encoding="ropee"), attnd.UnknownEncoding
    )
    assert error.resource.type == "encoding" and "rope" in error.text

    def strange_type(message):
        message.query.dtype = 99

    error = refusal(client, raw(strange_type), attnd.InvalidRequest)
    assert [each.field for each in error.field_violations] == ["query.dtype"]
    error = refusal(
        client, raw(attention_pb2.AttendRequest.Clear), attnd.InvalidRequest
    )
    assert {"query", "key", "value"} <= {
        each.field.partition(".")[0] for each in error.field_violations
    }


def test_a_mask_of_100000_wrong_entries_is_told_by_the_first_and_their_number(client):
    def wrong_ranges(message):
        for begin in range(100_000):
            message.mask.key_ranges.add(begin_ticks=begin + 1, end_ticks=begin)

    error = refusal(client, raw(wrong_ranges), attnd.InvalidRequest)
    (violation,) = error.field_violations
    assert violation.field == "mask.key_ranges"
    assert "100000" in violation.description and "0" in violation.description
    keys = np.zeros((1, 1, 100_000, 2), np.float32)
    bias = np.full((1, 1, 4, 100_000), np.nan, np.float32)
    refusal(client, attnd.request(Q, keys, keys, bias=bias), attnd.InvalidRequest)


def test_an_answer_that_would_be_too_large_is_refused_before_it_is_computed(client):
    keys = np.zeros((1, 1, 1 << 20, 2), np.float32)
    queries = np.zeros((1, 1, 4096, 2), np.float32)
    request = attnd.request(queries, keys, keys, outputs=["scores"])
    error = refusal(client, request, attnd.TooLarge)
    assert error.resource.type == "limit" and error.code == "RESOURCE_EXHAUSTED"


def heavy():
    x = np.zeros((1, 1, 8192, 16), np.float32)  # few bytes, much work
    return attnd.request(x, x, x)


def test_too_little_time_is_a_deadline(client):
    x = heavy()
    with pytest.raises(attnd.DeadlineExceeded) as caught:
        client.send(attnd.Request(x.header, x.arrays, timeout=0.02))
    assert caught.value.code == "DEADLINE_EXCEEDED"


@pytest.fixture
def narrow(tmp_path):
    """A server that computes one request and lets one wait."""
    config = tmp_path / "attnd.yaml"
    with open(__file__.replace("test_status_codes.py", "attnd.yaml")) as text:
        config.write_text(text.read() + "workers: 1\nlimits: {queue_requests: 1}\n")
    with Attnd(config) as server:
        yield server


def outcomes(client, count):
    def call(_):
        try:
            return client.send(heavy())
        except attnd.AttndError as error:
            return error

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(call, range(count)))


def test_a_full_queue_is_overload_and_says_when_to_come_back(narrow):
    with attnd.Client(narrow.target, max_attempts=1) as client:
        seen = outcomes(client, 8)
    refused = [each for each in seen if isinstance(each, Exception)]
    assert 0 < len(refused) < 8
    for error in refused:
        assert type(error) is attnd.Overloaded and error.code == "UNAVAILABLE"
        assert error.reason == "QUEUE_FULL" and error.retry_delay > 0
        assert error.attempts == 1


def test_overload_is_waited_out(narrow):
    with attnd.Client(narrow.target, max_attempts=1000) as client:
        seen = outcomes(client, 6)
    assert not [each for each in seen if isinstance(each, Exception)]
