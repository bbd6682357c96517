"""A day of demand, compressed to minutes, and what perfect scaling would do."""
import math
import random

# (seconds, workers of demand at the end); linear between. The burst comes within
# a second, and stays for 35.
NIGHT, DAY, BURST = 0.45, 2.8, 5.6
POINTS = [(0, NIGHT), (25, NIGHT), (85, DAY), (140, DAY), (141, BURST), (175, BURST),
          (176, DAY), (200, DAY), (250, NIGHT), (340, NIGHT)]
SECONDS = POINTS[-1][0]
BURST_BEGINS = 140
# While demand falls: replicas must stay.
PROMETHEUS_DIES, PROMETHEUS_RETURNS = 215, 245


def demand(second):
    """Workers of demand at a moment."""
    for (begin, first), (end, last) in zip(POINTS, POINTS[1:]):
        if begin <= second < end:
            return first + (last - first) * (second - begin) / (end - begin)
    return 0.0


def arrivals(work_seconds, seed):
    """Moments of a Poisson process that brings the demand with requests of
    `work_seconds` worker seconds each (thinning)."""
    source = random.Random(seed)
    highest = max(workers for _, workers in POINTS) / work_seconds
    moments, now = [], 0.0
    while True:
        now += source.expovariate(highest)
        if now >= SECONDS:
            return moments
        if source.random() < demand(now) / work_seconds / highest:
            moments.append(now)


def ideal_replicas(second, per_replica, minimum, maximum):
    return min(max(math.ceil(demand(second) / per_replica - 1e-9), minimum), maximum)


def direction_changes(values):
    """How often a series that rose falls next, or the other way round."""
    changes, last = 0, 0
    for before, after in zip(values, values[1:]):
        direction = (after > before) - (after < before)
        if direction and last and direction != last:
            changes += 1
        last = direction or last
    return changes
