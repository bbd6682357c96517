"""AttendStream: order, back-pressure, refusals, broken connections."""

import threading

import numpy as np
import pytest

import attnd
from running import Scripted
from stream_requests import check, echoes, expected, request


@pytest.mark.parametrize("ordered", [False, True])
def test_every_request_is_answered_once(client, ordered):
    answers = list(client.stream((request(n) for n in range(200)), ordered=ordered))
    check(answers, 200)
    if ordered:
        assert [answer.index for answer in answers] == list(range(200))


def test_an_empty_source_gives_no_answers(client):
    assert list(client.stream([])) == []


def test_a_bad_request_does_not_end_the_stream(client):
    requests = [request(0), request(1, encoding="ropee"), request(2)]
    answers = {answer.index: answer for answer in client.stream(requests)}
    assert isinstance(answers[1].error, attnd.UnknownEncoding)
    assert answers[1].error.resource.type == "encoding" and answers[1].result is None
    with pytest.raises(attnd.UnknownEncoding):
        answers[1].unwrap()
    for n in (0, 2):
        np.testing.assert_allclose(answers[n].unwrap().output, expected(n), rtol=1e-5)


def test_the_source_is_read_no_faster_than_answers_are_taken(client):
    read = []

    def source():
        for n in range(50):
            read.append(n)
            yield request(n)

    stream = client.stream(source(), max_in_flight=4)
    for taken in range(1, 51):
        next(stream)
        # Four in flight, and those whose answers were taken.
        assert len(read) <= taken + 4
    assert list(stream) == []


def test_a_slow_source_does_not_hold_back_answers(client):
    answered = threading.Event()

    def source():
        yield request(0)
        assert answered.wait(30), "the first answer waits for the second request"
        yield request(1)

    stream = client.stream(source())
    assert next(stream).index == 0
    answered.set()
    assert next(stream).index == 1


def test_what_the_source_raises_comes_after_the_answers(client):
    def source():
        yield request(0)
        raise KeyError("the source")

    stream = client.stream(source())
    assert next(stream).index == 0
    with pytest.raises(KeyError, match="the source"):
        next(stream)


def test_leaving_early_ends_the_stream_and_the_source(client):
    closed = threading.Event()

    def source():
        try:
            while True:
                yield request(0)
        finally:
            closed.set()

    stream = client.stream(source(), max_in_flight=2)
    next(stream)
    stream.close()
    assert closed.wait(30)
    assert client.health() == "SERVING"


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_restart_loses_no_answer_and_gives_none_twice(restartable, how):
    server = restartable()
    answers = []
    with attnd.Client(restartable.target, reconnect=30) as client:
        for answer in client.stream(request(n) for n in range(120)):
            answers.append(answer)
            if len(answers) in (30, 80):
                getattr(server, how)()
                server = restartable()
    check(answers, 120)


def test_refusals_with_a_delay_are_sent_again_after_it():
    seen = {}
    with Scripted(echoes(2, seen), streams=True) as server:
        with attnd.Client(server.target) as client:
            answers = list(client.stream(map(request, range(3)), max_in_flight=2))
            assert all(answer.error is None for answer in answers)
    for times in seen.values():
        assert len(times) == 3 and min(np.diff(times)) >= 0.05


def test_refusals_end_after_max_attempts():
    with Scripted(echoes(99, {}), streams=True) as server:
        with attnd.Client(server.target, max_attempts=2) as client:
            (answer,) = client.stream([request(0)], max_in_flight=1)
            assert isinstance(answer.error, attnd.Overloaded)
            assert answer.error.attempts == 2
