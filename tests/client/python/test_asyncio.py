"""AsyncClient: many tasks, cancellation, loops."""

import asyncio
import threading

import numpy as np
import pytest

import attnd
from attnd.v1 import attention_pb2
from running import Scripted, refuse, retry_after

Q = np.arange(8, dtype=np.float32).reshape(4, 2)


def test_64_tasks_share_a_client(server, client):
    async def all_at_once():
        async with attnd.AsyncClient(server.target) as shared:
            return await asyncio.gather(
                *(
                    shared.attend(Q * n, Q, Q, request_id=str(n), causal=True)
                    for n in range(64)
                )
            )

    answers = asyncio.run(all_at_once())
    assert [answer.request_id for answer in answers] == [str(n) for n in range(64)]
    for n in (0, 1, 63):
        expected = client.attend(Q * n, Q, Q, causal=True).output
        np.testing.assert_array_equal(answers[n].output, expected)


class Counting:
    """Answers when told to, and knows how many calls are inside at a time."""

    def __init__(self):
        self.lock = threading.Lock()
        self.inside = self.most = self.cancelled = 0
        self.leave = threading.Event()
        self.entered = threading.Semaphore(0)
        self.gone = threading.Event()

    def __call__(self, path, message, context):
        context.add_callback(self.gone.set)
        with self.lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        self.entered.release()
        self.leave.wait(20)
        with self.lock:
            self.inside -= 1
        return attention_pb2.AttendResponse().SerializeToString()


def test_no_more_than_max_in_flight_calls_travel_at_a_time():
    counting = Counting()

    async def calls(target):
        async with attnd.AsyncClient(target, max_in_flight=3) as shared:
            tasks = [asyncio.ensure_future(shared.attend(Q, Q, Q)) for _ in range(12)]
            loop = asyncio.get_running_loop()
            for _ in range(3):
                await loop.run_in_executor(None, counting.entered.acquire)
            counting.leave.set()
            await asyncio.gather(*tasks)

    with Scripted(counting, workers=12) as server:
        asyncio.run(calls(server.target))
        assert len(server.calls) == 12
    assert counting.most == 3


def test_cancelling_a_task_cancels_its_call_and_frees_its_place():
    counting = Counting()

    async def cancel(target):
        async with attnd.AsyncClient(target, max_in_flight=1) as shared:
            task = asyncio.ensure_future(shared.attend(Q, Q, Q))
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, counting.entered.acquire)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            # The server sees it go before it has answered.
            assert await loop.run_in_executor(None, counting.gone.wait, 20)
            counting.leave.set()
            await shared.attend(Q, Q, Q)

    with Scripted(counting) as server:
        asyncio.run(cancel(server.target))


def test_closing_ends_calls_under_way():
    counting = Counting()

    async def close(target):
        shared = attnd.AsyncClient(target)
        task = asyncio.ensure_future(shared.attend(Q, Q, Q))
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, counting.entered.acquire)
        await shared.close()
        with pytest.raises(attnd.Cancelled, match="closed"):
            await task
        counting.leave.set()

    with Scripted(counting) as server:
        asyncio.run(close(server.target))


def test_waiting_for_a_turn_can_be_cancelled_and_times_out():
    counting = Counting()

    async def wait(target):
        async with attnd.AsyncClient(target, max_in_flight=1) as shared:
            first = asyncio.ensure_future(shared.attend(Q, Q, Q))
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, counting.entered.acquire)
            with pytest.raises(attnd.DeadlineExceeded, match="max_in_flight"):
                await shared.attend(Q, Q, Q, timeout=0.05)
            waiting = asyncio.ensure_future(shared.attend(Q, Q, Q))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            counting.leave.set()
            await first
            await shared.attend(Q, Q, Q)

    with Scripted(counting) as server:
        asyncio.run(wait(server.target))
        assert len(server.calls) == 2


def test_refusals_are_retried_and_typed(server):
    import grpc

    def script(path, message, context):
        if len(scripted.calls) < 3:
            refuse(context, grpc.StatusCode.UNAVAILABLE, "full", retry_after(0.01))
        return attention_pb2.AttendResponse(request_id="x").SerializeToString()

    async def calls():
        async with attnd.AsyncClient(scripted.target) as shared:
            assert (await shared.attend(Q, Q, Q)).request_id == "x"
        async with attnd.AsyncClient(server.target) as shared:
            with pytest.raises(attnd.UnknownEncoding) as caught:
                await shared.attend(Q, Q, Q, encoding="ropee")
            assert caught.value.resource.type == "encoding"
            assert await shared.health() == "SERVING"
            assert (await shared.server_info()).workers >= 1
            assert len(await shared.list_encodings("rope")) == 1
            assert (await shared.estimate(Q, Q, Q)).flops >= 2 * 2 * 4 * 4 * 2

    with Scripted(script) as scripted:
        asyncio.run(calls())
        assert len(scripted.calls) == 3


def test_a_client_follows_into_another_loop(server):
    shared = attnd.AsyncClient(server.target)

    async def call():
        return (await shared.attend(Q, Q, Q)).output

    np.testing.assert_array_equal(asyncio.run(call()), asyncio.run(call()))


def test_a_closed_client_says_so(server):
    async def call():
        shared = attnd.AsyncClient(server.target)
        await shared.close()
        with pytest.raises(RuntimeError, match="closed"):
            await shared.health()

    asyncio.run(call())
