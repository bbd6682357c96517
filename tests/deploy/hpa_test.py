#!/usr/bin/env python3
"""The autoscaler's arithmetic against the worked examples of the Kubernetes
documentation, page "Horizontal Pod Autoscaling"."""
import unittest

from hpa import (DEFAULT_DOWN, DEFAULT_UP, Autoscaler, Direction, Metric, Policy,
                 desired_replicas, direction_of)

AT_ONCE = Direction(0, (Policy("Percent", 100, 15),))


def total(value, target=1.0):
    """A metric over all pods, with a target per pod."""
    return Metric(value, target)


class Desired(unittest.TestCase):
    """"Algorithm details"."""

    def test_200m_against_100m_doubles(self):
        self.assertEqual(desired_replicas(3, Metric(0.2, 0.1, average=False)), 6)

    def test_50m_against_100m_halves(self):
        self.assertEqual(desired_replicas(6, Metric(0.05, 0.1, average=False)), 3)

    def test_an_average_is_over_the_pods(self):
        self.assertEqual(desired_replicas(3, total(0.6, 0.1)), 6)

    def test_50_replicas_at_90_percent_of_75_become_60(self):
        """The example of the configurable tolerance, Kubernetes 1.33."""
        self.assertEqual(desired_replicas(50, Metric(90, 75, average=False)), 60)

    def test_a_tenth_is_tolerated_and_more_is_not(self):
        self.assertEqual(desired_replicas(10, total(11.0)), 10)
        self.assertEqual(desired_replicas(10, total(9.0)), 10)
        self.assertEqual(desired_replicas(10, total(11.01)), 12)
        self.assertEqual(desired_replicas(10, total(8.99)), 9)


class SeveralMetrics(unittest.TestCase):
    def test_the_largest_counts(self):
        scaler = Autoscaler(1, 100, AT_ONCE, AT_ONCE)
        self.assertEqual(scaler.step(0, 4, [total(2), total(6), total(3)]), 6)

    def test_a_missing_one_forbids_scaling_in(self):
        scaler = Autoscaler(1, 100, AT_ONCE, AT_ONCE)
        self.assertEqual(scaler.step(0, 4, [total(2), total(None)]), 4)

    def test_a_missing_one_allows_scaling_out(self):
        scaler = Autoscaler(1, 100, AT_ONCE, AT_ONCE)
        self.assertEqual(scaler.step(0, 4, [total(7), total(None)]), 7)

    def test_none_at_all_holds(self):
        scaler = Autoscaler(1, 100, AT_ONCE, AT_ONCE)
        self.assertEqual(scaler.step(0, 4, [total(None), total(float("nan"))]), 4)


class Policies(unittest.TestCase):
    """"Scaling policies"."""
    TWO = (Policy("Pods", 4, 60), Policy("Percent", 10, 60))

    def descend(self, scaler, replicas, to, seconds=60):
        steps = []
        for minute in range(100):
            before = replicas
            replicas = scaler.step(minute * seconds, replicas, [total(to)])
            if replicas == before:
                return steps
            steps.append(replicas)
        return steps

    def test_80_to_10_by_a_tenth_and_then_by_four(self):
        scaler = Autoscaler(1, 100, DEFAULT_UP, Direction(0, self.TWO))
        steps = self.descend(scaler, 80, 10)
        # 8 of 80; 7.2 of 72 rounded up to 8; ...; from 40 on four at a time.
        self.assertEqual(steps[:2], [72, 64])
        below = [s for s in steps if s < 40]
        self.assertEqual(below[-1], 10)
        falls = [a - b for a, b in zip([40] + below, below)]
        self.assertTrue(all(f == 4 for f in falls[1:-1]), steps)

    def test_within_one_period_no_more_than_allowed(self):
        scaler = Autoscaler(1, 100, DEFAULT_UP, Direction(0, self.TWO))
        replicas = 80
        for second in range(0, 60, 15):
            replicas = scaler.step(second, replicas, [total(10)])
            self.assertEqual(replicas, 72)
        self.assertEqual(scaler.step(60, replicas, [total(10)]), 64)

    def test_min_takes_the_smallest_change(self):
        """"Example: limit scale down rate": never more than 5 pods a minute."""
        rules = Direction(0, (Policy("Percent", 10, 60), Policy("Pods", 5, 60)), "Min")
        self.assertEqual(self.descend(Autoscaler(1, 100, DEFAULT_UP, rules), 80, 10)[0], 75)
        self.assertEqual(self.descend(Autoscaler(1, 100, DEFAULT_UP, rules), 20, 10)[0], 18)

    def test_disabled_never_scales_in(self):
        scaler = Autoscaler(1, 100, DEFAULT_UP, Direction(0, self.TWO, "Disabled"))
        self.assertEqual(scaler.step(0, 50, [total(1)]), 50)

    def test_by_default_up_by_100_percent_or_four_pods_every_15_seconds(self):
        scaler = Autoscaler(1, 100)
        replicas, steps = 1, []
        for second in range(0, 75, 15):
            replicas = scaler.step(second, replicas, [total(60)])
            steps.append(replicas)
        self.assertEqual(steps, [5, 10, 20, 40, 60])

    def test_by_default_down_at_once_after_the_window(self):
        scaler = Autoscaler(2, 100)
        self.assertEqual(scaler.step(0, 50, [total(50)]), 50)
        self.assertEqual(scaler.step(300, 50, [total(1)]), 50)
        self.assertEqual(scaler.step(301, 50, [total(1)]), 2)


class Stabilisation(unittest.TestCase):
    """"Stabilization window": the highest state of the last 300 s counts."""

    def test_a_rolling_maximum(self):
        scaler = Autoscaler(1, 100, DEFAULT_UP, DEFAULT_DOWN)
        replicas = scaler.step(0, 20, [total(20)])
        for second, wanted in ((60, 15), (120, 12), (240, 14), (300, 5)):
            replicas = scaler.step(second, replicas, [total(wanted)])
            self.assertEqual(replicas, 20)
        # 20 has left the window; 15 is the highest in it, then 14.
        self.assertEqual(scaler.step(315, replicas, [total(5)]), 15)
        self.assertEqual(scaler.step(375, 15, [total(5)]), 14)

    def test_scaling_out_does_not_wait(self):
        scaler = Autoscaler(1, 100)
        scaler.step(0, 10, [total(10)])
        self.assertEqual(scaler.step(15, 10, [total(18)]), 18)

    def test_a_window_for_scaling_out_waits(self):
        scaler = Autoscaler(1, 100, Direction(60, DEFAULT_UP.policies), DEFAULT_DOWN)
        scaler.step(0, 10, [total(10)])
        self.assertEqual(scaler.step(30, 10, [total(18)]), 10)
        self.assertEqual(scaler.step(75, 10, [total(18)]), 18)


class Bounds(unittest.TestCase):
    def test_minimum_and_maximum(self):
        scaler = Autoscaler(2, 6, AT_ONCE, AT_ONCE)
        self.assertEqual(scaler.step(0, 4, [total(50)]), 6)
        self.assertEqual(scaler.step(60, 4, [total(0)]), 2)


class Manifest(unittest.TestCase):
    def test_times_can_be_compressed(self):
        spec = {"stabilizationWindowSeconds": 300,
                "policies": [{"type": "Percent", "value": 10, "periodSeconds": 60}]}
        self.assertEqual(direction_of(spec, 0.1),
                         Direction(30, (Policy("Percent", 10, 6),), "Max"))


if __name__ == "__main__":
    unittest.main()
