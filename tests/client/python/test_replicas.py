"""Replicas behind a name, one of which comes later."""

import socket
import socketserver
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import attnd
from running import Attnd

Q = np.ones((2, 2), np.float32)
NAME = "replicas.attnd.test"
# The promise, with the settings that nobody has changed.
SECONDS = 30


class Names(socketserver.UDPServer):
    """A name server that knows one name; `addresses` are what it resolves to."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), None)
        self.addresses = []
        self._thread = threading.Thread(target=self.serve_forever, daemon=True)
        self._thread.start()

    @property
    def target(self):
        return f"127.0.0.1:{self.server_address[1]}"

    def finish_request(self, request, client_address):
        question, reply = request
        end = question.index(b"\0", 12) + 5
        kind = int.from_bytes(question[end - 4 : end - 2], "big")
        found = self.addresses if kind == 1 else []  # A
        header = question[:2] + b"\x84\0\0\1" + len(found).to_bytes(2, "big") + bytes(4)
        answers = b"".join(
            # The name of the question, A, IN, no second of life, four bytes.
            b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4" + socket.inet_aton(address)
            for address in found
        )
        reply.sendto(header + question[12:end] + answers, client_address)

    def __exit__(self, *_):
        self.shutdown()
        self._thread.join()
        self.server_close()


@pytest.fixture
def names():
    with Names() as server:
        yield server


@pytest.fixture
def replica(tmp_path):
    """Starts replicas at 127.0.0.2, .3, ... and one port that all of them have."""
    running = []
    # Held, so that nobody who listens at all addresses takes it meanwhile.
    reserved = socket.create_server(("127.0.0.9", 0))
    port = reserved.getsockname()[1]

    def start():
        address = f"127.0.0.{len(running) + 2}"
        config = tmp_path / f"{address}.yaml"
        with open(__file__.replace("test_replicas.py", "attnd.yaml")) as text:
            config.write_text(text.read().replace("127.0.0.1:0", f"{address}:{port}"))
        running.append(Attnd(config))
        return address

    start.port = port
    yield start
    for server in running:
        server.kill()
    reserved.close()


def shares(client, calls):
    """How many of the calls each replica answered; their configurations differ in
    the address, and so do the hashes of these."""
    with ThreadPoolExecutor(4) as pool:
        answers = pool.map(lambda _: client.attend(Q, Q, Q), range(calls))
        return Counter(answer.stats.config_hash for answer in answers)


def wait_for(client, count):
    """Calls until so many replicas have answered."""
    begin, seen = time.monotonic(), set()
    while len(seen) < count:
        assert time.monotonic() < begin + SECONDS, f"{len(seen)} of {count} answered"
        seen.add(client.attend(Q, Q, Q).stats.config_hash)


def check_even(counts, replicas):
    assert len(counts) == replicas
    even = sum(counts.values()) / replicas
    assert all(abs(count - even) <= 0.2 * even for count in counts.values()), counts


def test_a_new_replica_behind_a_name_gets_its_share_within_30_seconds(names, replica):
    names.addresses = [replica(), replica()]
    target = f"dns://{names.target}/{NAME}:{replica.port}"
    with attnd.Client(target) as client:
        wait_for(client, 2)
        check_even(shares(client, 400), 2)
        names.addresses = [*names.addresses, replica()]
        wait_for(client, 3)
        check_even(shares(client, 600), 3)
