"""Clients in other processes and threads: fork, spawn, pickle."""

import multiprocessing
import os
import pickle
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import attnd
from attnd import forking

Q = np.arange(8, dtype=np.float32).reshape(4, 2)
# After which a child hangs, and is not just kept waiting by other processes.
SECONDS = 240


def attend(client):
    return client.attend(Q, Q, Q, causal=True).output


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_used_client_works_in_child_processes_and_still_here(client, method):
    expected = attend(client)
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        for output in pool.map(attend, [client] * 6, timeout=SECONDS):
            np.testing.assert_array_equal(output, expected)
    np.testing.assert_array_equal(attend(client), expected)


def _attend_into(connection, client):
    connection.send(attend(client))
    connection.close()


def test_forks_while_other_threads_call(client):
    expected = attend(client)
    stop = threading.Event()

    def keep_calling():
        while not stop.is_set():
            np.testing.assert_array_equal(attend(client), expected)

    context = multiprocessing.get_context("fork")
    with ThreadPoolExecutor(3) as pool:
        calling = [pool.submit(keep_calling) for _ in range(3)]
        try:
            for _ in range(8):
                here, there = context.Pipe(duplex=False)
                # The client is inherited, not pickled.
                child = context.Process(target=_attend_into, args=(there, client))
                child.start()
                there.close()
                assert here.poll(SECONDS), "a forked child hangs"
                np.testing.assert_array_equal(here.recv(), expected)
                child.join()
                assert child.exitcode == 0
        finally:
            stop.set()
        for done in calling:
            done.result()


def test_a_fork_waits_until_the_threads_of_grpc_sleep(client, monkeypatch):
    attend(client)
    assert forking._grpc_threads(), "gRPC calls its threads otherwise now"
    awake_until = time.monotonic() + 0.3

    def threads():
        return {"one": "R" if time.monotonic() < awake_until else "S"}

    monkeypatch.setattr(forking, "_grpc_threads", threads)
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert time.monotonic() >= awake_until + forking.QUIET_SECONDS
    assert os.waitpid(child, 0)[1] == 0


def test_pickled_clients_keep_their_settings():
    client = attnd.Client(
        ["127.0.0.1:1", "127.0.0.1:2"],
        timeout=5,
        max_attempts=2,
        tls=attnd.Tls(root_certificates="x"),
        metadata={"a": "b"},
    )
    for kind in (attnd.Client, attnd.AsyncClient):
        other = pickle.loads(pickle.dumps(kind(client.settings.endpoints, timeout=5)))
        assert type(other) is kind and other.settings.timeout == 5
    assert pickle.loads(pickle.dumps(client)).settings == client.settings


def test_private_keys_are_not_shown():
    tls = attnd.Tls(certificate_chain="chain", private_key="secret")
    assert "secret" not in repr(tls)
    assert "secret" not in repr(attnd.Client(tls=tls))


def test_requests_and_answers_can_be_pickled(client):
    request = attnd.request(Q, Q, Q, causal=True)
    answer = client.send(pickle.loads(pickle.dumps(request)))
    again = pickle.loads(pickle.dumps(answer))
    np.testing.assert_array_equal(again.output, attend(client))


def test_threads_share_a_client(client):
    expected = attend(client)
    with ThreadPoolExecutor(16) as pool:
        for output in pool.map(attend, [client] * 64):
            np.testing.assert_array_equal(output, expected)
