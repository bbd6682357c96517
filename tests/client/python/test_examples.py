"""The pipelines of client/examples, run as their texts say."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

import attnd
from running import Attnd

EXAMPLES = Path(__file__).resolve().parents[3] / "client" / "examples"


@pytest.fixture(scope="module")
def target():
    with Attnd(EXAMPLES / "attnd.yaml") as server:
        yield server.target


def run(name, *arguments):
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *map(str, arguments)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def figure(text, pattern):
    found = re.search(pattern, text)
    assert found, text
    return float(found[1])


def is_png(path):
    return (
        path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" and path.stat().st_size > 10_000
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_hidden_weeks_are_estimated_better_than_by_straight_lines(
    target, seed, tmp_path
):
    plot = tmp_path / "co2.png"
    text = run("co2_gaps.py", "--target", target, "--seed", seed, "--out", plot)
    attention = figure(text, r"rmse attention (\S+) ppm")
    straight = figure(text, r"straight line (\S+) ppm")
    assert attention < 0.6 * straight
    assert "520 weeks hidden of 2225" in text
    assert "59 weeks without any observation" in text
    assert is_png(plot)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_injected_faults_are_found(target, seed, tmp_path):
    plot = tmp_path / "air.png"
    text = run("air_quality.py", "--target", target, "--seed", seed, "--out", plot)
    for kind, least in (("spikes", 0.85), ("level shifts", 0.6)):
        assert figure(text, rf"{kind}: .*precision (\S+),") >= least
        assert figure(text, rf"{kind}: .*recall (\S+)") >= least
    assert is_png(plot)


def test_the_consumer_loses_nothing(target):
    text = run("stream_consumer.py", "--target", target)
    assert "2 dead letters, 0 lost" in text
    assert figure(text, r"rmse (\S+) ppm") < 1.5


@pytest.mark.parametrize("crash_after", [1, 2, 9, 40])
def test_a_crash_at_any_time_commits_only_what_is_stored(
    target, crash_after, monkeypatch
):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import stream_consumer as example

    partitions = [messages[:15] for messages in example.messages()]

    async def crash():
        log, store = example.Log(partitions), example.Store()
        async with attnd.AsyncClient(target) as client:
            with pytest.raises(example.Crash):
                await example.consume(client, log, store, crash_after)
            stored = set(store.results) | set(store.dead)
            for number, committed in enumerate(log.committed):
                assert {(number, i) for i in range(committed)} <= stored
            assert sum(log.committed) < 45
            await example.consume(client, log, store)
        return log, store

    async def no_crash():
        log, store = example.Log(partitions), example.Store()
        async with attnd.AsyncClient(target) as client:
            assert await example.consume(client, log, store) == 45
        return log, store

    log, store = asyncio.run(crash())
    whole_log, whole_store = asyncio.run(no_crash())
    assert log.committed == whole_log.committed == [15, 15, 15]
    assert store.results == whole_store.results and len(store.results) == 43
    assert store.dead.keys() == whole_store.dead.keys() == {(0, 5), (1, 7)}


def test_beam_when_installed(target):
    pytest.importorskip("apache_beam")
    text = run("beam_handler.py", "--target", target)
    assert "353 results" in text and "1 dead letters" in text
    assert figure(text, r"rmse (\S+) ppm") < 1.5


def test_spark_when_installed(target):
    pytest.importorskip("pyspark")
    text = run("spark_job.py", "--target", target)
    for way in ("mapInPandas", "predict_batch_udf"):
        assert figure(text, rf"{way}: 354 results, rmse (\S+) ppm") < 1.5
