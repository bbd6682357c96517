"""What lets a process fork while it has clients.

gRPC starts afresh in a forked child if no thread of the parent was inside it, and
hangs the child, or breaks the parent's connections, if one was. So calls pass a
gate: a fork lets no new call begin and waits for those under way. One that lasts
longer than FORK_WAIT_SECONDS is not waited for; its thread then sleeps outside of
gRPC, where the fork finds it safe in nearly all cases.
"""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import contextmanager
from typing import Any, Iterator, List

FORK_WAIT_SECONDS = 5.0


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
        self._changed.wait_for(lambda: self._calls == 0, FORK_WAIT_SECONDS)

    def after_fork(self) -> None:
        self._forking = False
        self._changed.notify_all()
        self._changed.release()


gate = _Gate()
_clients: "weakref.WeakSet[Any]" = weakref.WeakSet()
# Connections of a parent process: closing them here would close them there.
_inherited: List[Any] = []


def forget_in_children(client: Any) -> None:
    """Has a client start afresh in forked children."""
    _clients.add(client)


def _in_child() -> None:
    # Locks may be held by threads that are not here.
    global gate
    gate.__init__()  # type: ignore[misc]
    for client in list(_clients):
        _inherited.append(client._connection)
        client._forget()


os.register_at_fork(
    before=gate.before_fork,
    after_in_parent=gate.after_fork,
    after_in_child=_in_child,
)
