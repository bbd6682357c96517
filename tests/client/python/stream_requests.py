"""Requests whose answers are known: the mean of the values so far; and a server's
answers that say no more than whose they are."""

import time

import grpc
import numpy as np

import attnd
from attnd.v1 import attention_pb2
from running import retry_after, status_bytes

Q = np.arange(8, dtype=np.float32).reshape(4, 2) / 8


def request(n, **options):
    v = np.float32(n) + Q
    return attnd.request(Q, Q, v, causal=True, scale=0.0, request_id=f"r{n}", **options)


def expected(n):
    return np.cumsum(n + Q.astype(float), axis=0) / np.arange(1, 5)[:, None]


def check(answers, count):
    assert sorted(answer.index for answer in answers) == list(range(count))
    for answer in answers:
        result = answer.unwrap()
        assert result.request_id == answer.request.request_id == f"r{answer.index}"
        np.testing.assert_allclose(result.output, expected(answer.index), rtol=1e-5)


def echoes(refusals, seen):
    """Answers each id after refusing it as often as `refusals` says."""

    def answer(path, messages, context):
        for message in messages:
            sent = attention_pb2.AttendStreamRequest.FromString(message)
            name = sent.request.request_id
            seen.setdefault(name, []).append(time.monotonic())
            answer = attention_pb2.AttendStreamResponse(request_id=name)
            if len(seen[name]) <= refusals:
                code = grpc.StatusCode.UNAVAILABLE
                answer.status = status_bytes(code, "queue full", retry_after(0.05))
            else:
                answer.response.request_id = name
            yield answer.SerializeToString()

    return answer
