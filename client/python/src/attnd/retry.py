"""Whether to call again, and when."""

from __future__ import annotations

import random
import time
from typing import Callable, Optional

from attnd.errors import AttndError, Cancelled, DeadlineExceeded, Unreachable

# Share of the server's delay that is added at most, so that clients that were
# refused together do not come back together.
JITTER = 0.2
# Waits between attempts to reach a server: the first, and the longest.
FIRST_WAIT_SECONDS = 0.05
LONGEST_WAIT_SECONDS = 1.0


class Attempts:
    """The attempts of one call and the time they have.

    A call is made again after a refusal that names a delay (full queue, draining,
    a tenant's quota): after that delay plus up to 20 %, `max_attempts` calls in
    all. A call that found no server, or lost its connection, is made again with
    growing waits for `reconnect` seconds: every method may be repeated. Neither
    passes the deadline. Nothing else is repeated.
    """

    def __init__(
        self,
        timeout: float,
        max_attempts: int,
        reconnect: float,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._clock = clock
        self._jitter = jitter
        self._timeout = timeout
        self._deadline = clock() + timeout
        self._refusals_left = max_attempts - 1
        self._reconnect = reconnect
        self._give_up_at: Optional[float] = None
        self._wait = FIRST_WAIT_SECONDS
        self.made = 0

    def begin(self) -> float:
        """Counts an attempt; the seconds it has. DeadlineExceeded: none left."""
        left = self.left()
        if left <= 0:
            raise DeadlineExceeded(
                f"no answer within {self._timeout:g} s", "DEADLINE_EXCEEDED"
            )
        self.made += 1
        return left

    def left(self) -> float:
        return self._deadline - self._clock()

    def wait_after(self, error: AttndError) -> Optional[float]:
        """Seconds until the next attempt, or None if the error is final."""
        error.attempts = self.made
        if error.retry_delay is not None:
            wait = self._after_refusal(error.retry_delay)
        elif isinstance(error, (Unreachable, Cancelled)):
            # Nobody here cancelled it: a server that ends drops calls so.
            wait = self._after_loss()
        else:
            return None
        return None if wait is None or wait >= self.left() else wait

    def _after_refusal(self, delay: float) -> Optional[float]:
        # A server answered: connections work again.
        self._give_up_at = None
        self._wait = FIRST_WAIT_SECONDS
        if self._refusals_left <= 0:
            return None
        self._refusals_left -= 1
        return delay * (1 + JITTER * self._jitter())

    def _after_loss(self) -> Optional[float]:
        now = self._clock()
        if self._give_up_at is None:
            self._give_up_at = now + self._reconnect
        if now >= self._give_up_at:
            return None
        wait = self._wait * (1 + JITTER * self._jitter())
        self._wait = min(2 * self._wait, LONGEST_WAIT_SECONDS)
        return wait
