#!/usr/bin/env python3
"""The parts of the closed loop that need no process: the day and the rules."""
import re
import unittest

import autoscale_day as day
from autoscale import SPEED, Shipped, compressed_rules
from objects import CHART


class Day(unittest.TestCase):
    def test_demand_is_linear_between_its_points(self):
        for (begin, first), (end, last) in zip(day.POINTS, day.POINTS[1:]):
            self.assertAlmostEqual(day.demand(begin), first)
            self.assertAlmostEqual(day.demand((begin + end) / 2), (first + last) / 2)
        self.assertEqual(day.demand(day.SECONDS), 0)

    def test_arrivals_bring_the_demand(self):
        """Of every stretch: a Poisson count, within five of its deviations."""
        cost = 0.02
        moments = day.arrivals(cost, seed=3)
        self.assertEqual(moments, sorted(moments))
        for (begin, first), (end, last) in zip(day.POINTS, day.POINTS[1:]):
            expected = (first + last) / 2 * (end - begin) / cost
            count = sum(begin <= m < end for m in moments)
            self.assertLess(abs(count - expected), 5 * expected ** 0.5)

    def test_the_same_seed_is_the_same_day(self):
        self.assertEqual(day.arrivals(0.02, 1), day.arrivals(0.02, 1))
        self.assertNotEqual(day.arrivals(0.02, 1), day.arrivals(0.02, 2))

    def test_prometheus_dies_while_demand_falls(self):
        self.assertGreater(day.demand(day.PROMETHEUS_DIES),
                           1.5 * day.demand(day.PROMETHEUS_RETURNS))

    def test_direction_changes(self):
        for values, changes in (([2, 2, 3, 5, 5], 0), ([2, 5, 4, 4, 2], 1),
                                ([2, 4, 2, 4, 2], 3), ([5, 5], 0), ([], 0)):
            self.assertEqual(day.direction_changes(values), changes)

    def test_ideal_replicas(self):
        self.assertEqual(day.ideal_replicas(0, 0.7, 2, 9), 2)
        self.assertEqual(day.ideal_replicas(day.BURST_BEGINS + 5, 0.7, 2, 9), 8)
        self.assertEqual(day.ideal_replicas(day.BURST_BEGINS + 5, 0.7, 2, 6), 6)


class Compression(unittest.TestCase):
    """What the loop evaluates is what is shipped, but for the seconds."""

    def test_rules(self):
        text = compressed_rules()
        self.assertIn(f"[{60000 // SPEED}ms]", text)
        self.assertIn(f"interval: {15000 // SPEED}ms", text)
        shipped = (CHART / "files" / "rules.yaml").read_text()
        back = text.replace(f"[{60000 // SPEED}ms]", "[1m]").replace(
            f"interval: {15000 // SPEED}ms", "interval: 15s")
        self.assertIn(back, shipped)
        self.assertEqual(re.findall(r"\[\d+[smh]\]", text), [])

    def test_behaviour(self):
        shipped = Shipped()
        self.assertEqual(shipped.down.window, 300 / SPEED)
        self.assertEqual([p.period for p in shipped.up.policies], [15 / SPEED] * 2)
        self.assertEqual(shipped.per_replica, 0.7)


if __name__ == "__main__":
    unittest.main()
