"""A consumer of a partitioned log that loses nothing: at least once, in Kafka's shape.

    python3 stream_consumer.py --target 127.0.0.1:50051

Messages are windows of the CO2 series with one week to estimate. The loop is that
of any Kafka client: poll, work, commit. Three rules make it safe:

  back-pressure   it polls only while fewer than IN_FLIGHT messages are at work, so
                  neither a fast log nor a slow server fills the memory
  at least once   an offset is committed when its result and those of all offsets
                  before it are stored; after a crash what came later comes again
  idempotence     calls are stateless and results are stored under (partition,
                  offset), so what comes again changes nothing

A message that can never work goes to the dead letters. Overload and lost
connections are not its fault: AsyncClient tries again, and if the server stays
away the consumer ends without having committed.
"""

import argparse
import asyncio
from collections import defaultdict

import numpy as np

import attnd
import co2_windows

PARTITIONS = 3
IN_FLIGHT = 8


class Log:
    """What a broker keeps: messages by partition, and committed offsets."""

    def __init__(self, partitions):
        self.partitions = partitions
        self.committed = [0] * len(partitions)

    def consumer(self):
        """Yields (partition, offset, message) from the committed offsets on."""
        places = list(self.committed)
        while any(place < len(p) for place, p in zip(places, self.partitions)):
            for number, messages in enumerate(self.partitions):
                if places[number] < len(messages):
                    yield number, places[number], messages[places[number]]
                    places[number] += 1


class Commits:
    """Turns results in any order into offsets that may be committed."""

    def __init__(self, log):
        self._log = log
        self._done = defaultdict(set)

    def stored(self, partition, offset):
        done = self._done[partition]
        done.add(offset)
        while self._log.committed[partition] in done:
            done.remove(self._log.committed[partition])
            self._log.committed[partition] += 1


class Store:
    """Where results go; storing one again is no second result."""

    def __init__(self):
        self.results = {}
        self.dead = {}
        self.repeated = 0

    def put(self, table, key, value):
        self.repeated += key in self.results or key in self.dead
        table[key] = value


class Crash(Exception):
    """The process ends here, for the sake of the example."""


async def estimate(client, message):
    """The week's value as an average of its window, weighted by time alone."""
    level, how = co2_windows.arguments(
        message["at"], message["times"], message["values"]
    )
    answer = await client.attend(**how)
    return float(answer.output[0, 0] + level[0])


async def consume(client, log, store, crash_after=None):
    """Until the log is empty; the number of messages that were worked on."""
    commits = Commits(log)
    places = asyncio.Semaphore(IN_FLIGHT)
    handled = 0

    async def work(partition, offset, message):
        nonlocal handled
        try:
            try:
                value = await estimate(client, message)
                store.put(store.results, (partition, offset), value)
            except (attnd.InvalidRequest, ValueError) as error:
                store.put(store.dead, (partition, offset), str(error))
            handled += 1
            if handled == crash_after:
                raise Crash
            commits.stored(partition, offset)
        finally:
            places.release()

    tasks = set()
    try:
        for partition, offset, message in log.consumer():
            await places.acquire()
            done = {task for task in tasks if task.done()}
            tasks -= done
            for task in done:
                task.result()
            tasks.add(asyncio.ensure_future(work(partition, offset, message)))
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return handled


def messages():
    """The windows over all partitions, two of them broken."""
    partitions = [[] for _ in range(PARTITIONS)]
    for number, window in enumerate(co2_windows.windows()):
        partitions[number % PARTITIONS].append(window)
    partitions[0][5]["values"].pop()
    partitions[1][7]["times"][3] = "NaT"
    return partitions


async def run(target):
    log, store = Log(messages()), Store()
    total = sum(len(partition) for partition in log.partitions)
    async with attnd.AsyncClient(target, max_in_flight=IN_FLIGHT) as client:
        try:
            await consume(client, log, store, crash_after=total // 2)
        except Crash:
            print(f"crashed with {sum(log.committed)} of {total} messages committed")
        again = await consume(client, log, store)
    lost = total - len(store.results) - len(store.dead)
    errors = [
        value - log.partitions[partition][offset]["truth"]
        for (partition, offset), value in store.results.items()
    ]
    print(f"{again} messages worked on after the restart, {store.repeated} repeated")
    print(
        f"{total} messages: {len(store.results)} results, {len(store.dead)} dead "
        f"letters, {lost} lost; rmse {np.sqrt(np.mean(np.square(errors))):.2f} ppm"
    )
    for place, reason in sorted(store.dead.items()):
        print(f"  dead letter {place}: {reason}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", required=True)
    asyncio.run(run(parser.parse_args().target))


if __name__ == "__main__":
    main()
