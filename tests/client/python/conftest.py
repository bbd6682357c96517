"""One real server for a run, and clients of it."""

import pytest

import attnd
from running import Attnd


@pytest.fixture(scope="session")
def server():
    with Attnd() as running:
        yield running


@pytest.fixture
def client(server):
    with attnd.Client(server.target) as client:
        yield client


@pytest.fixture
def restartable(tmp_path):
    """Starts servers one after the other at one address."""
    address = f"unix:{tmp_path}/attnd"
    config = tmp_path / "attnd.yaml"
    with open(__file__.replace("conftest.py", "attnd.yaml")) as text:
        config.write_text(text.read().replace("127.0.0.1:0", address))
    running = []

    def start():
        running.append(Attnd(config))
        return running[-1]

    start.target = address
    yield start
    for server in running:
        if server.process.poll() is None:
            server.kill()
