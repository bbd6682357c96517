#!/usr/bin/env python3
"""The closed loop of autoscaling without a cluster.

A real Prometheus scrapes real attnd processes and evaluates the shipped rules; the
algorithm of the HorizontalPodAutoscaler asks it the shipped queries, with the
shipped thresholds and behaviour, and starts and stops processes; attnctl replays a
day of demand with a burst. Everything that the manifests count in seconds is divided
by SPEED: intervals, windows, periods. Starting a process, draining it and
reconnecting to it take the time they take.

attnd runs with --pace, so that ten replicas leave the processors mostly free; a run
in which less than 30 % of them stayed free says nothing, and says so: INVALID.

usage: autoscale.py ATTND ATTNCTL OUT_FOLDER
Exit codes: 0 every promise kept, 1 one broken, 3 invalid.
"""
import contextlib
import csv
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

import autoscale_day as day
from autoscale_fleet import Fleet
from autoscale_plot import Panel, draw
from hpa import SYNC_SECONDS, Autoscaler, Metric, direction_of
from objects import CHART, ROOT, load_objects
from services import Prometheus, eventually

SPEED = 10
PACE = 16
MOST_REPLICAS = 12
# One request: light on the wire, heavy for the worker.
WORK = ["--heads", "1", "--queries", "1024", "--dim", "16"]
CONNECTIONS = 2
SEED = 1

# The promises.
OBJECTIVE_SECONDS, OBJECTIVE_SHARE = 1.0, 0.99
ADAPTATION_SECONDS = 30
FREE_SHARE = 0.3
EXTRA_TURNS = 2
FREE_WINDOW_SECONDS = 10


class Shipped:
    """What deploy/kubernetes/attnd-scaled.yaml says about scaling."""

    def __init__(self):
        objects = load_objects(ROOT / "deploy" / "kubernetes" / "attnd-scaled.yaml")
        spec = next(o for o in objects if o["kind"] == "ScaledObject")["spec"]
        pod = next(o for o in objects if o["kind"] == "Deployment")["spec"]["template"]
        cpus = int(pod["spec"]["containers"][0]["resources"]["limits"]["cpu"])
        self.minimum = spec["minReplicaCount"]
        behavior = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
        self.up = direction_of(behavior["scaleUp"], 1 / SPEED)
        self.down = direction_of(behavior["scaleDown"], 1 / SPEED)
        self.queries = []  # (query, threshold, whether per replica)
        for trigger in spec["triggers"]:
            average = trigger["metricType"] == "AverageValue"
            threshold = float(trigger["metadata"]["threshold"])
            # A threshold per pod counts its CPUs; a replica here has one worker.
            self.queries.append((trigger["metadata"]["query"],
                                 threshold / cpus if average else threshold, average))
        self.per_replica = self.queries[0][1]


def compressed_rules():
    """The recording rules of scaling, with their seconds divided by SPEED."""
    def shorter(match):
        number, unit = float(match.group(2)), match.group(3)
        seconds = number * {"s": 1, "m": 60}[unit] / SPEED
        return f"{match.group(1)}{int(1000 * seconds)}ms{match.group(4)}"
    text = (CHART / "files" / "rules.yaml").read_text()
    group = text[text.index("groups:"):text.index("  - name: attnd.objectives")]
    group = re.sub(r"(\[)(\d+)([sm])(\])", shorter, group)
    return re.sub(r"(interval: )(\d+)([sm])()", shorter, group)


def prometheus_config(folder, fleet):
    (folder / "rules.yaml").write_text(compressed_rules())
    interval = f"{int(1000 * 15 / SPEED)}ms"
    return {"global": {"scrape_interval": interval, "scrape_timeout": "1s",
                       "evaluation_interval": interval},
            "rule_files": [str(folder / "rules.yaml")],
            "scrape_configs": [{"job_name": "attnd", "file_sd_configs": [
                {"files": [str(fleet.discovery)], "refresh_interval": "1s"}]}]}


class Controller(threading.Thread):
    """Asks and acts every sync period until told to stop."""

    def __init__(self, shipped, fleet, prometheus, start):
        super().__init__()
        self.rows = []  # (second, replicas, [value or None])
        self.prometheus = prometheus
        self._shipped, self._fleet, self._start = shipped, fleet, start
        self._scaler = Autoscaler(shipped.minimum, MOST_REPLICAS, shipped.up,
                                  shipped.down)
        self._stopping = threading.Event()

    def stop(self):
        self._stopping.set()
        self.join()

    def run(self):
        period = SYNC_SECONDS / SPEED
        for tick in range(1, 10**9):
            self._step()
            due = self._start + tick * period
            if self._stopping.wait(max(0.0, due - time.monotonic())):
                return

    def _step(self):
        values = [self._value(query) for query, _, _ in self._shipped.queries]
        metrics = [Metric(value, threshold, average) for value, (_, threshold, average)
                   in zip(values, self._shipped.queries)]
        now = time.monotonic() - self._start
        current = self._fleet.replicas()
        wanted = self._scaler.step(now, current, metrics)
        if wanted != current:
            self._fleet.set_replicas(wanted)
        self.rows.append((now, wanted, values))

    def _value(self, query):
        try:
            found = self.prometheus.vector(query)
        except (OSError, ValueError):
            return None
        return found[0][1] if len(found) == 1 else None


class FreeProcessors(threading.Thread):
    """The share of the processors that nobody used, window by window."""

    def __init__(self):
        super().__init__(daemon=True)
        self.shares = []
        self._stopping = threading.Event()

    @staticmethod
    def _ticks():
        with open("/proc/stat") as file:
            numbers = list(map(int, file.readline().split()[1:9]))
        return numbers[3] + numbers[4], sum(numbers)

    def run(self):
        before = self._ticks()
        while not self._stopping.wait(FREE_WINDOW_SECONDS):
            now = self._ticks()
            self.shares.append((now[0] - before[0]) / (now[1] - before[1]))
            before = now

    def stop(self):
        self._stopping.set()
        self.join()


def work_seconds(attnctl, fleet):
    """What one request costs a worker, as the demand counts it."""
    process = fleet.processes()[0]
    subprocess.run([attnctl, "load", "--target", process.grpc, "-n", "1", "-r", "100",
                    *WORK], check=True, stdout=subprocess.DEVNULL)
    series = dict(line.rsplit(" ", 1) for line in process.series_text().splitlines()
                  if not line.startswith("#"))
    offered = float(series['attnd_offered_worker_seconds_total{tenant_class="default"}'])
    calls = float(series["attnd_stage_seconds_count{stage=\"compute\"}"])
    ratio = float(series["attnd_cost_model_ratio"])
    return offered / calls * min(max(ratio, 0.5), 2)


def replay(attnctl, fleet, folder, moments):
    """Plays the arrivals; the rows of what happened, second by second."""
    trace = folder / "arrivals.txt"
    # From the start of the day on, not from the first arrival.
    trace.write_text("".join(f"{m:.6f}\n" for m in [0.0] + moments))
    ran = subprocess.run(
        [attnctl, "load", "--target", fleet.target, "--replay", str(trace),
         "--replay-unit", "s", "-c", str(CONNECTIONS), "--timeout", "5s",
         "--csv", str(folder / "load.csv"), f"--json={folder / 'load.json'}", "--quiet",
         *WORK], stdout=subprocess.PIPE, text=True, check=False)
    (folder / "load.txt").write_text(ran.stdout)
    if ran.returncode not in (0, 3):
        raise RuntimeError(f"attnctl load: exit {ran.returncode}\n{ran.stdout}")
    with open(folder / "load.csv") as file:
        rows = [{key: float(value) if value else None for key, value in row.items()}
                for row in csv.DictReader(file)]
    return rows, ran.returncode == 3


def run(attnd, attnctl, folder):
    """One day; everything that was seen."""
    shipped = Shipped()
    fleet = Fleet(attnd, folder, MOST_REPLICAS, PACE)
    prometheus = controller = None
    try:
        fleet.set_replicas(shipped.minimum)
        fleet.wait()
        cost = work_seconds(attnctl, fleet)
        config = prometheus_config(folder, fleet)
        prometheus = Prometheus(folder, config)
        eventually(lambda: prometheus.vector("attnd:offered_workers:rate1m"),
                   "Prometheus has a demand")
        moments = day.arrivals(cost, SEED)
        print(f"{1000 * cost:.1f} ms a request, {len(moments)} requests in "
              f"{day.SECONDS} s", flush=True)
        free = FreeProcessors()
        start = time.monotonic()
        controller = Controller(shipped, fleet, prometheus, start)
        controller.start()
        free.start()

        def outage():
            time.sleep(max(0.0, start + day.PROMETHEUS_DIES - time.monotonic()))
            prometheus.kill()
            time.sleep(max(0.0, start + day.PROMETHEUS_RETURNS - time.monotonic()))
            controller.prometheus = Prometheus(folder, config)
        accident = threading.Thread(target=outage)
        accident.start()
        rows, slow_client = replay(attnctl, fleet, folder, moments)
        accident.join()
        free.stop()
        controller.stop()
        fleet.wait()
        return {"work_seconds": cost, "requests": len(moments), "load": rows,
                "slow_client": slow_client, "controller": controller.rows,
                "free": free.shares, "exit_codes": fleet.exit_codes}
    finally:
        with contextlib.ExitStack() as ends:
            ends.callback(fleet.kill)
            if prometheus:
                ends.callback(prometheus.kill)
            if controller:
                ends.callback(lambda: controller.prometheus.kill())
                ends.callback(controller.stop)


def in_adaptation(row):
    """Whether any of a row's time is."""
    return (row["seconds"] < day.BURST_BEGINS + ADAPTATION_SECONDS
            and row["seconds"] + row["row_seconds"] > day.BURST_BEGINS)


def judge(seen):
    """[(promise, whether it was kept, what was found)] and why it is invalid."""
    rows = seen["load"]
    quiet = [r for r in rows if not in_adaptation(r)]
    failed = sum(r["failed"] + r["dropped"] for r in quiet)
    calls = sum(r["planned"] for r in quiet)
    slow = [r for r in quiet if (r["latency_p99_seconds"] or 0) > OBJECTIVE_SECONDS]
    replicas = [n for _, n, _ in seen["controller"]]
    shipped = Shipped()
    ideal = [day.ideal_replicas(t, shipped.per_replica, shipped.minimum, MOST_REPLICAS)
             for t, _, _ in seen["controller"]]
    turns, own = day.direction_changes(replicas), day.direction_changes(ideal)
    # What was asked for just before it died is asked for still.
    outage = [n for t, n, values in seen["controller"]
              if day.PROMETHEUS_DIES <= t < day.PROMETHEUS_RETURNS and values[0] is None]
    last = replicas[-1]
    promises = [
        (f"99 % of the calls of every {rows[0]['row_seconds']:g} s within "
         f"{OBJECTIVE_SECONDS:g} s, but for "
         f"{ADAPTATION_SECONDS} s after the burst", not slow,
         f"{len(slow)} of {len(quiet)} rows slower"),
        ("no failed call, but for the same time", failed == 0,
         f"{failed:g} of {calls:g} failed"),
        (f"at most {EXTRA_TURNS} changes of direction beyond the day's own",
         turns <= own + EXTRA_TURNS, f"{turns}, the day has {own}"),
        ("replicas that left had finished", all(c == 0 for c in seen["exit_codes"])
         and len(seen["exit_codes"]) > 0, f"{len(seen['exit_codes'])} left, all with exit 0"),
        ("Prometheus dead: replicas hold", len(set(outage)) == 1 and outage[0] > shipped.minimum,
         f"{sorted(set(outage))} in {len(outage)} steps"),
        ("at night the fewest are left", last == shipped.minimum, f"{last}"),
    ]
    invalid = []
    if min(seen["free"]) < FREE_SHARE:
        invalid.append(f"only {min(seen['free']):.0%} of the processors were free in one "
                       f"of {len(seen['free'])} windows of {FREE_WINDOW_SECONDS} s "
                       f"(mean {sum(seen['free']) / len(seen['free']):.0%})")
    if seen["slow_client"]:
        invalid.append("attnctl load calls its own run invalid")
    return promises, invalid


def plot(seen):
    rows, steps = seen["load"], seen["controller"]
    shipped = Shipped()
    seconds = [r["seconds"] for r in rows]
    failed = [(r["failed"] + r["dropped"]) / r["row_seconds"] for r in rows]
    highest = max([day.BURST] + [v[0] or 0 for _, _, v in steps])
    return draw(
        f"attnd through a day of {day.SECONDS} s: real Prometheus, real processes, "
        "the algorithm of the HPA",
        f"times divided by {SPEED}; one worker a replica, paced {PACE}; "
        f"{1000 * seen['work_seconds']:.0f} ms of work a request",
        day.SECONDS,
        [(day.BURST_BEGINS, day.BURST_BEGINS + ADAPTATION_SECONDS, "#fff3d6", "adaptation"),
         (day.PROMETHEUS_DIES, day.PROMETHEUS_RETURNS, "#f3e3e6", "no Prometheus")],
        [Panel("Demand, workers", highest * 1.1, "", [
            ("planned", "#999", [(t / 2, day.demand(t / 2)) for t in range(2 * day.SECONDS)]),
            ("as the scaler sees it", "#1f6fb4", [(t, v[0]) for t, _, v in steps])]),
         Panel("Replicas", MOST_REPLICAS, "", [
             ("ideal", "#999", [(t, day.ideal_replicas(
                 t, shipped.per_replica, shipped.minimum, MOST_REPLICAS))
                 for t in range(day.SECONDS)]),
             ("replicas", "#1a8a4a", [(t, n) for t, n, _ in steps])], steps=True),
         Panel("Latency by time of arrival", 2, " s", [
             ("99 %", "#c44e52", [(t, r["latency_p99_seconds"]) for t, r in zip(seconds, rows)]),
             ("median", "#e39a3b", [(t, r["latency_p50_seconds"]) for t, r in zip(seconds, rows)]),
             ("objective", "#666", [(0, OBJECTIVE_SECONDS), (day.SECONDS, OBJECTIVE_SECONDS)])]),
         Panel("Calls failed a second", max([5] + failed) * 1.1, "", [
             ("failed", "#c44e52", list(zip(seconds, failed)))])])


def main(attnd, attnctl, out):
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        seen = run(attnd, attnctl, pathlib.Path(folder))
    (out / "seen.json").write_text(json.dumps(seen))
    (out / "plot.svg").write_text(plot(seen))
    promises, invalid = judge(seen)
    for promise, kept, found in promises:
        print(f"{'kept  ' if kept else 'BROKEN'}  {promise}: {found}")
    for reason in invalid:
        print(f"INVALID  {reason}")
    print(f"plot: {out / 'plot.svg'}")
    if invalid:
        return 3
    return 0 if all(kept for _, kept, _ in promises) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
