"""attnd processes as replicas: started, drained, and told to Prometheus."""
import json
import pathlib
import socket
import threading
import time

from services import Attnd

DRAIN_DELAY_SECONDS = 1


def free_port(addresses):
    """A port that nobody listens on at any of the addresses."""
    for _ in range(100):
        sockets = []
        try:
            first = socket.socket()
            first.bind((addresses[0], 0))
            sockets.append(first)
            port = first.getsockname()[1]
            for address in addresses[1:]:
                sockets.append(socket.socket())
                sockets[-1].bind((address, port))
            return port
        except OSError:
            continue
        finally:
            for s in sockets:
                s.close()
    raise RuntimeError("no port is free at all addresses")


class Fleet:
    """At most `size` replicas at 127.0.1.1, .2, ..., all on one port, as pods
    behind a headless service are; one worker each."""

    def __init__(self, program, folder, size, pace):
        self.folder = pathlib.Path(folder)
        self.addresses = [f"127.0.1.{i + 1}" for i in range(size)]
        self.port = free_port(self.addresses)
        self.target = ",".join(f"{a}:{self.port}" for a in self.addresses)
        self.discovery = self.folder / "targets.json"
        self.exit_codes = []
        self._program, self._pace = program, pace
        self._slots = [None] * size  # None, "starting", or an Attnd
        self._draining = {}  # slot: Attnd
        self._threads = []
        self._started = 0
        self._lock = threading.Lock()
        self._tell()

    def replicas(self):
        """That serve or start; not those that drain."""
        with self._lock:
            return sum(slot is not None for i, slot in enumerate(self._slots)
                       if i not in self._draining)

    def processes(self):
        with self._lock:
            return [s for s in self._slots if isinstance(s, Attnd)]

    def set_replicas(self, wanted):
        """Starts replicas, or drains the newest; does not wait for either."""
        with self._lock:
            alive = [i for i, s in enumerate(self._slots)
                     if s is not None and i not in self._draining]
            for slot in [i for i, s in enumerate(self._slots) if s is None][
                    :max(0, wanted - len(alive))]:
                self._slots[slot] = "starting"
                self._spawn(self._start, slot)
            ready = [i for i in alive if isinstance(self._slots[i], Attnd)]
            for slot in ready[::-1][:max(0, len(alive) - wanted)]:
                self._draining[slot] = self._slots[slot]
                self._spawn(self._drain, slot)

    def wait(self):
        """Until nothing starts or drains."""
        for thread in list(self._threads):
            thread.join()

    def kill(self):
        self.wait()
        for process in self.processes():
            process.kill()

    def _spawn(self, function, slot):
        self._threads.append(threading.Thread(target=function, args=(slot,)))
        self._threads[-1].start()

    def _start(self, slot):
        with self._lock:
            self._started += 1
            name = f"attnd-{self._started}"
        process = Attnd(self._program, self.folder, name, {
            "listeners": [{"address": f"{self.addresses[slot]}:{self.port}"}],
            "admin": {"address": "127.0.0.1:0"},
            "workers": 1,
            "drain": {"delay_seconds": DRAIN_DELAY_SECONDS, "grace_seconds": 10}},
            ["--pace", str(self._pace)])
        with self._lock:
            self._slots[slot] = process
        self._tell()

    def _drain(self, slot):
        process = self._draining[slot]
        process.terminate()
        code = process.wait()
        with self._lock:
            self.exit_codes.append(code)
            self._slots[slot] = None
            del self._draining[slot]
        self._tell()

    def _tell(self):
        """Service discovery of Prometheus, replaced at once."""
        with self._lock:
            targets = [s.admin for s in self._slots if isinstance(s, Attnd)]
            fresh = self.discovery.with_suffix(f".{time.monotonic_ns()}")
            fresh.write_text(json.dumps([{"targets": targets,
                                          "labels": {"namespace": "attnd"}}]))
            fresh.rename(self.discovery)
