"""The HorizontalPodAutoscaler of Kubernetes (autoscaling/v2): arithmetic only.

Follows the documentation, "Horizontal Pod Autoscaling": desired replicas are
ceil(current * value / target) for each metric, the largest counts; close enough to
1 is left alone; a metric that cannot be had forbids scaling in; recommendations
are stabilised over a window; policies limit what may change within a period.
"""
import dataclasses
import math

SYNC_SECONDS = 15
TOLERANCE = 0.1


@dataclasses.dataclass(frozen=True)
class Metric:
    """One of a single value, as `External` metrics are."""
    value: float | None  # None: it could not be had
    target: float
    average: bool = True  # target type AverageValue: per replica; else Value


@dataclasses.dataclass(frozen=True)
class Policy:
    kind: str  # "Pods" or "Percent"
    value: float
    period: float


@dataclasses.dataclass(frozen=True)
class Direction:
    """`behavior.scaleUp` or `behavior.scaleDown`."""
    window: float
    policies: tuple[Policy, ...]
    select: str = "Max"  # "Max", "Min", "Disabled"


DEFAULT_UP = Direction(0, (Policy("Percent", 100, 15), Policy("Pods", 4, 15)))
DEFAULT_DOWN = Direction(300, (Policy("Percent", 100, 15),))


def direction_of(spec, seconds=1.0):
    """Of a `behavior` entry as in a manifest; its seconds times `seconds`."""
    return Direction(
        spec["stabilizationWindowSeconds"] * seconds,
        tuple(Policy(p["type"], p["value"], p["periodSeconds"] * seconds)
              for p in spec["policies"]),
        spec.get("selectPolicy", "Max"))


def desired_replicas(current, metric, tolerance=TOLERANCE):
    """What one metric asks for; None if it could not be had."""
    if metric.value is None or math.isnan(metric.value):
        return None
    ratio = metric.value / metric.target
    if metric.average:
        ratio /= current
    if abs(ratio - 1) <= tolerance + 1e-12:
        return current
    return math.ceil(ratio * current - 1e-9)


class Autoscaler:
    def __init__(self, minimum, maximum, up=DEFAULT_UP, down=DEFAULT_DOWN,
                 tolerance=TOLERANCE):
        self.minimum, self.maximum = minimum, maximum
        self.up, self.down = up, down
        self.tolerance = tolerance
        self._recommended = []  # (time, replicas)
        self._changes = []  # (time, replicas more or fewer)

    def step(self, now, current, metrics):
        """Replicas from now on; call it once every sync period."""
        wanted = self._wanted(current, metrics)
        if wanted is None:
            return current
        stable = self._stabilised(now, current, wanted)
        allowed = self._limited(now, current, stable)
        if allowed != current:
            self._changes.append((now, allowed - current))
        return allowed

    def _wanted(self, current, metrics):
        asked = [desired_replicas(current, m, self.tolerance) for m in metrics]
        known = [a for a in asked if a is not None]
        if not known:
            return None
        wanted = max(known)
        if len(known) < len(asked) and wanted < current:
            return None
        return min(max(wanted, self.minimum), self.maximum)

    def _stabilised(self, now, current, wanted):
        self._recommended.append((now, wanted))
        longest = max(self.up.window, self.down.window)
        self._recommended = [r for r in self._recommended if r[0] >= now - longest]
        lowest = min(r for t, r in self._recommended if t >= now - self.up.window)
        highest = max(r for t, r in self._recommended if t >= now - self.down.window)
        return min(max(current, lowest), highest)

    def _limited(self, now, current, wanted):
        if wanted > current:
            limit = self._limit(now, current, self.up, +1)
            return current if limit is None else max(
                current, min(wanted, limit, self.maximum))
        if wanted < current:
            limit = self._limit(now, current, self.down, -1)
            return current if limit is None else min(
                current, max(wanted, limit, self.minimum))
        return current

    def _limit(self, now, current, rules, sign):
        """As far as the policies let it go; None = not at all."""
        if rules.select == "Disabled":
            return None
        limits = []
        for policy in rules.policies:
            since = now - policy.period
            start = current - sum(n for t, n in self._changes if t > since)
            if policy.kind == "Pods":
                limits.append(start + sign * policy.value)
            elif sign > 0:
                limits.append(math.ceil(start * (1 + policy.value / 100) - 1e-9))
            else:
                limits.append(math.floor(start * (1 - policy.value / 100) + 1e-9))
        widest = max if (sign > 0) == (rules.select == "Max") else min
        return widest(limits)
