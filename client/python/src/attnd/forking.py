"""What lets a process fork while it has clients.

gRPC starts afresh in a forked child if it was at rest in the parent. If it was not,
it hangs the child or the fork itself, ends the child, or breaks the parent's
connections. So

  - calls pass a gate: a fork lets no new call begin and waits for those under way;
  - connections are closed, and made again by the next call, here as in the child: in
    the child gRPC may be too slow in closing them, and then ends the process;
  - one channel without connections stays, since gRPC prepares no fork without any;
  - gRPC's own threads must have slept for a moment: calls leave work behind that they
    may not have begun where processors are busy.

A call that lasts longer than FORK_WAIT_SECONDS is not waited for, and connections
stay; its thread then sleeps outside of gRPC, where the fork finds it safe in nearly
all cases.
"""

from __future__ import annotations

import glob
import os
import threading
import time
import weakref
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Optional

import grpc

FORK_WAIT_SECONDS = 5.0
# How long gRPC's threads must have slept, and how often they are looked at.
QUIET_SECONDS = 0.1
LOOK_SECONDS = 0.001
# Its names for them, as far as Linux keeps names.
_GRPC_THREADS = (
    "default-executo",
    "event_engine",
    "grpc_global_tim",
    "grpc_shutdown",
    "lifeguard",
    "resolver-execut",
    "timer_manager",
)


class _Gate:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._forking = False
        self._calls = 0

    @contextmanager
    def call(self) -> Iterator[None]:
        """Around a whole call."""
        with self._changed:
            self._changed.wait_for(lambda: not self._forking)
            self._calls += 1
        try:
            yield
        finally:
            with self._changed:
                self._calls -= 1
                self._changed.notify_all()

    @contextmanager
    def entry(self) -> Iterator[None]:
        """Around a moment inside gRPC; a fork waits for its end in any case."""
        with self._changed:
            yield

    def before_fork(self) -> None:
        self._changed.acquire()
        self._forking = True
        give_up = time.monotonic() + FORK_WAIT_SECONDS
        if self._changed.wait_for(lambda: self._calls == 0, FORK_WAIT_SECONDS):
            for client in list(_clients):
                client._disconnect()
        _wait_for_grpc(give_up)

    def after_fork(self) -> None:
        self._forking = False
        self._changed.notify_all()
        self._changed.release()


def _wait_for_grpc(give_up: float) -> None:
    """Until the threads of gRPC have slept for a while, or `give_up`."""
    since = now = time.monotonic()
    states = _grpc_threads()
    while states and now - since < QUIET_SECONDS and now < give_up:
        time.sleep(LOOK_SECONDS)
        now = time.monotonic()
        before, states = states, _grpc_threads()
        if states != before or set(states.values()) != {"S"}:
            since = now


def _grpc_threads() -> Dict[str, str]:
    """States of gRPC's threads ("S": sleeping); nothing where there is no /proc."""
    states = {}
    for stat in glob.glob("/proc/self/task/*/stat"):
        try:
            with open(stat) as text:
                name, _, rest = text.read().partition("(")[2].rpartition(") ")
        except OSError:  # ended meanwhile
            continue
        if name in _GRPC_THREADS:
            states[stat] = rest[0]
    return states


gate = _Gate()
_clients: "weakref.WeakSet[Any]" = weakref.WeakSet()
# Connections of a parent process: closing them here would close them there.
_inherited: List[Any] = []


_resting: Optional[grpc.Channel] = None


def forget_in_children(client: Any) -> None:
    """Has a client start afresh in forked children."""
    _clients.add(client)


def before_connecting() -> None:
    """Inside of gate.entry()."""
    global _resting
    if _resting is None:
        # Never asked to connect, it never does.
        _resting = grpc.insecure_channel("unix:attnd-resting")


def _in_child() -> None:
    # Locks may be held by threads that are not here.
    global _resting
    _inherited.append(_resting)
    _resting = None
    gate.__init__()  # type: ignore[misc]
    for client in list(_clients):
        _inherited.append(client._connection)
        client._forget()


os.register_at_fork(
    before=gate.before_fork,
    after_in_parent=gate.after_fork,
    after_in_child=_in_child,
)
