"""A server that ends and comes back in the middle of a run."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import attnd

Q = np.arange(32, dtype=np.float32).reshape(16, 2) / 32


def expected(n):
    """Causal attention with logits 0: running means of n + Q."""
    return np.cumsum(n + Q.astype(float), axis=0) / np.arange(1, 17)[:, None]


def request(n):
    v = np.float32(n) + Q
    return attnd.request(Q, Q, v, causal=True, scale=0.0, request_id=str(n))


class Restarts:
    """Ends the server and starts it again each time so many answers are there."""

    def __init__(self, start, how):
        self.start, self.how = start, how
        self.server = start()
        self.count = 0
        self.lock = threading.Lock()

    def answered(self):
        with self.lock:
            self.count += 1
            if self.count in (40, 90):
                getattr(self.server, self.how)()
                self.server = self.start()


def check(answers):
    assert sorted(int(answer.request_id) for answer in answers) == list(range(150))
    for answer in answers:
        n = int(answer.request_id)
        np.testing.assert_allclose(answer.output, expected(n), rtol=1e-5)


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_threads_lose_no_answer_and_get_none_twice(restartable, how):
    restarts = Restarts(restartable, how)
    with attnd.Client(restartable.target, reconnect=30) as client:

        def call(n):
            answer = client.send(request(n))
            restarts.answered()
            return answer

        with ThreadPoolExecutor(6) as pool:
            check(list(pool.map(call, range(150))))


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_tasks_lose_no_answer_and_get_none_twice(restartable, how):
    restarts = Restarts(restartable, how)

    async def run():
        async with attnd.AsyncClient(
            restartable.target, reconnect=30, max_in_flight=6
        ) as client:

            async def call(n):
                answer = await client.send(request(n))
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(None, restarts.answered)
                return answer

            return await asyncio.gather(*(call(n) for n in range(150)))

    check(asyncio.run(run()))
