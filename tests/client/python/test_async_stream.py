"""AsyncClient.stream(): order, back-pressure, cancellation, broken connections."""

import asyncio
import contextlib
import threading

import numpy as np
import pytest

import attnd
from running import Scripted
from stream_requests import check, echoes, expected, request


def collect(target, source, **options):
    """All answers of a stream, as one program would take them."""

    async def all_of_them():
        async with attnd.AsyncClient(target) as client:
            return [answer async for answer in client.stream(source, **options)]

    return asyncio.run(all_of_them())


async def asynchronous(count):
    for n in range(count):
        await asyncio.sleep(0)
        yield request(n)


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("kind", ["plain", "asynchronous"])
def test_every_request_is_answered_once(server, kind, ordered):
    source = asynchronous(200) if kind == "asynchronous" else map(request, range(200))
    answers = collect(server.target, source, ordered=ordered)
    check(answers, 200)
    if ordered:
        assert [answer.index for answer in answers] == list(range(200))


def test_an_empty_source_gives_no_answers(server):
    assert collect(server.target, []) == []


def test_a_bad_request_does_not_end_the_stream(server):
    requests = [request(0), request(1, encoding="ropee"), request(2)]
    answers = {answer.index: answer for answer in collect(server.target, requests)}
    assert isinstance(answers[1].error, attnd.UnknownEncoding)
    for n in (0, 2):
        np.testing.assert_allclose(answers[n].unwrap().output, expected(n), rtol=1e-5)


def test_the_source_is_read_no_faster_than_answers_are_taken(server):
    read = []

    async def source():
        for n in range(50):
            read.append(n)
            yield request(n)

    async def take():
        async with attnd.AsyncClient(server.target) as client:
            stream = client.stream(source(), max_in_flight=4)
            taken = 0
            async for _ in stream:
                taken += 1
                # The reader may run as far as it wants.
                for _ in range(20):
                    await asyncio.sleep(0)
                assert len(read) <= taken + 4
            assert taken == len(read) == 50

    asyncio.run(take())


def test_a_slow_source_does_not_hold_back_answers(server):
    async def take():
        answered = asyncio.Event()

        async def source():
            yield request(0)
            await asyncio.wait_for(answered.wait(), 30)
            yield request(1)

        async with attnd.AsyncClient(server.target) as client:
            seen = []
            async for answer in client.stream(source()):
                seen.append(answer.index)
                answered.set()
            assert seen == [0, 1]

    asyncio.run(take())


def test_what_the_source_raises_comes_after_the_answers(server):
    async def source():
        yield request(0)
        raise KeyError("the source")

    async def take():
        seen = []
        async with attnd.AsyncClient(server.target) as client:
            with pytest.raises(KeyError, match="the source"):
                async for answer in client.stream(source()):
                    seen.append(answer.index)
        assert seen == [0]

    asyncio.run(take())


def test_leaving_early_ends_the_stream_and_the_source(server):
    async def take():
        closed = asyncio.Event()

        async def source():
            try:
                while True:
                    yield request(0)
            finally:
                closed.set()

        async with attnd.AsyncClient(server.target) as client:
            stream = client.stream(source(), max_in_flight=2)
            async with contextlib.aclosing(stream) as answers:
                async for _ in answers:
                    break
            assert closed.is_set()
            assert await client.health() == "SERVING"

    asyncio.run(take())


class Silent:
    """Takes requests and answers none."""

    def __init__(self):
        self.entered, self.gone = threading.Event(), threading.Event()

    def __call__(self, path, messages, context):
        context.add_callback(self.gone.set)
        next(messages)
        self.entered.set()
        self.gone.wait(30)
        return iter(())


def in_a_stream_without_answers(then):
    """Runs `then(client, task, silent)` while a task waits for an answer."""
    silent = Silent()

    async def run(target):
        async with attnd.AsyncClient(target) as client:

            async def read():
                async for _ in client.stream([request(0)], max_in_flight=1):
                    raise AssertionError("an answer out of nothing")

            task = asyncio.ensure_future(read())
            loop = asyncio.get_running_loop()
            assert await loop.run_in_executor(None, silent.entered.wait, 30)
            await then(client, task)
            assert await loop.run_in_executor(None, silent.gone.wait, 30)

    with Scripted(silent, streams=True) as server:
        asyncio.run(run(server.target))


def test_cancelling_the_reader_cancels_the_stream_on_the_server():
    async def cancel(client, task):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    in_a_stream_without_answers(cancel)


def test_closing_the_client_ends_its_streams_with_an_error():
    async def close(client, task):
        await client.close()
        with pytest.raises(attnd.Cancelled, match="closed"):
            await task

    in_a_stream_without_answers(close)


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_restart_loses_no_answer_and_gives_none_twice(restartable, how):
    async def take():
        server = restartable()
        answers = []
        loop = asyncio.get_running_loop()
        async with attnd.AsyncClient(restartable.target, reconnect=30) as client:
            async for answer in client.stream(asynchronous(120)):
                answers.append(answer)
                if len(answers) in (30, 80):
                    await loop.run_in_executor(None, getattr(server, how))
                    server = await loop.run_in_executor(None, restartable)
        return answers

    check(asyncio.run(take()), 120)


def test_refusals_with_a_delay_are_sent_again_after_it():
    seen = {}
    with Scripted(echoes(2, seen), streams=True) as server:
        answers = collect(server.target, map(request, range(3)), max_in_flight=2)
    assert [answer.error for answer in answers] == [None] * 3
    for times in seen.values():
        assert len(times) == 3 and min(np.diff(times)) >= 0.05


def test_refusals_end_after_max_attempts():
    with Scripted(echoes(99, {}), streams=True) as server:
        (answer,) = collect(server.target, [request(0)], max_in_flight=1)
    assert isinstance(answer.error, attnd.Overloaded)
    assert answer.error.attempts == 4


def test_a_stream_needs_room_for_one_request(server):
    with pytest.raises(ValueError, match="max_in_flight: 0"):
        collect(server.target, [], max_in_flight=0)
