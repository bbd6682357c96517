"""What becomes of the times that people hold."""

import datetime
import os
import subprocess
import sys
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

import attnd
from attnd.times import common, times

# The clocks of New York change between the first two.
INSTANTS = ["2024-03-10T06:59:00", "2024-03-10T07:00:00", "2024-03-10T07:01:30"]
NS = np.array(INSTANTS, dtype="datetime64[ns]").view("i8")
UTC = pd.DatetimeIndex(INSTANTS).tz_localize("UTC")


def same_instants():
    numpy = np.array(INSTANTS, dtype="datetime64[s]")
    for unit in ("s", "ms", "us", "ns"):
        yield f"datetime64[{unit}]", numpy.astype(f"datetime64[{unit}]"), {}
    yield "big-endian", numpy.astype(">M8[ms]"), {}
    yield "strided", np.repeat(numpy, 2)[::2], {}
    for zone in ("UTC", "Asia/Kolkata", "America/New_York"):
        index = UTC.tz_convert(zone)
        yield f"DatetimeIndex {zone}", index, {}
        yield f"Series {zone}", pd.Series(index), {}
        yield f"array {zone}", index.array, {}
        yield f"list of Timestamps {zone}", list(index), {}
        zoned = [stamp.to_pydatetime().astimezone(ZoneInfo(zone)) for stamp in index]
        yield f"list of datetimes {zone}", zoned, {}
    yield "naive as UTC", UTC.tz_localize(None), {"naive": "UTC"}
    # Five and a half hours ahead, all the year.
    local = UTC.tz_convert("Asia/Kolkata").tz_localize(None)
    yield "naive as Kolkata", local, {"naive": "Asia/Kolkata"}
    yield "int64", NS, {"time_unit": "ns"}
    yield "seconds", NS // 10**9, {"time_unit": "s"}
    yield "int32 seconds", (NS // 10**9).astype("i4"), {"time_unit": "s"}


CASES = [pytest.param(values, how, id=name) for name, values, how in same_instants()]


@pytest.mark.parametrize("values, how", CASES)
def test_same_instants_send_the_same_bytes(values, how):
    q = np.zeros((3, 2), np.float32)
    expected = attnd.request(q, q, q, query_time=NS, key_time=NS, time_unit="ns")
    sent = attnd.request(q, q, q, query_time=values, key_time=values, **how)
    assert sent.to_bytes() == expected.to_bytes()


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_the_zone_of_the_machine_does_not_matter(zone):
    program = (
        "import test_times, hashlib\n"
        "for name, values, how in test_times.same_instants():\n"
        "    read = test_times.times(values, 't', **how).in_unit('ns', 't')\n"
        "    print(name, read.values.tolist() == test_times.NS.tolist())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TZ": zone},
        cwd=os.path.dirname(__file__),
        capture_output=True,
        text=True,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == len(CASES), done.stderr
    assert [line for line in lines if not line.endswith(" True")] == []


def test_scores_decay_by_real_minutes(client):
    # Rate 1 a minute, gaps of 60 and 90 seconds.
    q = np.ones((3, 1), np.float32)
    for case in CASES:
        values, how = case.values
        answer = client.attend(
            q,
            q,
            q,
            query_time=values,
            key_time=values,
            encoding="alibi_minutes",
            causal=True,
            scale=0.0,
            outputs=["scores"],
            **how,
        )
        np.testing.assert_allclose(
            answer.scores[2], [-2.5, -1.5, 0], rtol=1e-6, err_msg=case.id
        )


@pytest.mark.parametrize(
    "values",
    [
        UTC.tz_localize(None),
        pd.Series(UTC.tz_localize(None)),
        [stamp.to_pydatetime() for stamp in UTC.tz_localize(None)],
        list(UTC.tz_localize(None)),
    ],
    ids=["index", "series", "datetimes", "Timestamps"],
)
def test_times_without_a_zone_need_a_choice(values):
    with pytest.raises(ValueError, match=r"t: .*without a zone.*naive"):
        times(values, "t")


def test_local_times_that_exist_twice_or_never_are_refused():
    never = pd.DatetimeIndex(["2024-03-10T02:30:00"])
    twice = pd.DatetimeIndex(["2024-11-03T01:30:00"])
    for values in (never, twice):
        with pytest.raises(ValueError, match="t: in America/New_York"):
            times(values, "t", naive="America/New_York")


def test_a_day_of_a_clock_change_keeps_its_real_length():
    days = pd.date_range("2024-03-09", periods=3, freq="D", tz="America/New_York")
    gaps = np.diff(times(days, "t").in_unit("s", "t").values)
    assert gaps.tolist() == [24 * 3600, 23 * 3600]


@pytest.mark.parametrize(
    "values",
    [
        np.array(["2024-01-01", "NaT", "NaT"], dtype="datetime64[s]"),
        pd.DatetimeIndex(["2024-01-01", None, None], tz="UTC"),
        pd.Series(pd.DatetimeIndex(["2024-01-01", None, None], tz="UTC")),
        [pd.Timestamp("2024-01-01", tz="UTC"), pd.NaT, pd.NaT],
    ],
    ids=["numpy", "index", "series", "list"],
)
def test_nat_is_refused_with_its_place(values):
    with pytest.raises(ValueError, match=r"t\[1\]: NaT \(2 of 3\)"):
        times(values, "t")


def test_nan_and_infinite_times_are_refused_with_their_place():
    grid = np.array([[0.0, 1.0], [np.inf, np.nan]])
    with pytest.raises(ValueError, match=r"t\[1, 0\]: no finite time \(2 of 4\)"):
        times(grid, "t", time_unit="s")


def test_plain_numbers_need_a_unit():
    for values in ([1, 2], np.array([1.5, 2.5])):
        with pytest.raises(ValueError, match="t: plain numbers.*time_unit"):
            times(values, "t")
    with pytest.raises(ValueError, match='floats with time_unit="ns"'):
        times(np.array([1.5]), "t", time_unit="ns")


@pytest.mark.parametrize(
    "values",
    [
        pd.period_range("2024-01", periods=3, freq="M"),
        pd.to_timedelta([1, 2], unit="s"),
        pd.DataFrame({"t": UTC}),
        np.array([True, False]),
        np.array(["2024-01-01"]),
        [None, "x"],
    ],
)
def test_what_is_no_time_is_refused(values):
    with pytest.raises((TypeError, ValueError), match="^t"):
        times(values, "t", time_unit="s")


def test_both_axes_are_of_one_kind():
    q = np.zeros((1, 2), np.float32)
    with pytest.raises(ValueError, match="query_time is integer time, key_time float"):
        attnd.request(
            q, q, q, query_time=UTC[:1], key_time=np.array([1.0]), time_unit="s"
        )
    with pytest.raises(ValueError, match="key_time: missing"):
        attnd.request(q, q, q, query_time=UTC[:1])


def test_instants_beyond_nanoseconds_go_in_a_coarser_unit():
    far = times(np.array(["0001-01-01", "9999-12-31"], dtype="datetime64[s]"), "far")
    near = times(UTC, "near")
    first, second = common([far, near], ["far", "near"])
    assert first.unit == second.unit == "us"
    assert second.values.tolist() == (NS // 1000).tolist()
    finer = times(NS + 1, "near", time_unit="ns")
    with pytest.raises(ValueError, match="near: ns do not fit"):
        common([far, finer], ["far", "near"])


@pytest.mark.parametrize("unit", ["D", "h", "m", "W", "M", "Y"])
def test_calendar_units_are_their_first_instant(unit):
    values = np.array(["2024-01-01"], dtype=f"datetime64[{unit}]")
    expected = values.astype("datetime64[ns]").view("i8")
    assert times(values, "t").in_unit("ns", "t").values.tolist() == expected.tolist()


def test_nanoseconds_of_timestamps_survive():
    stamp = pd.Timestamp(1_700_000_000_123_456_789, tz="UTC")
    assert times([stamp], "t").values.tolist() == [stamp.value]
    assert times(stamp.tz_convert("Asia/Tokyo"), "t").values.tolist() == [stamp.value]


def test_nanosecond_values_are_not_copied():
    stamps = NS.view("datetime64[ns]")
    assert np.shares_memory(times(stamps, "t").values, stamps)
    assert np.shares_memory(times(NS, "t", time_unit="ns").values, NS)


def test_windows_are_exact_ticks():
    q = np.zeros((3, 2), np.float32)

    def mask(window, causal=False, at=UTC, **how):
        made = attnd.request(
            q, q, q, query_time=at, key_time=at, window=window, causal=causal, **how
        )
        return made.header.mask

    hours = 36 * 3600 * 10**9
    for window in (
        "36h",
        "1.5d",
        datetime.timedelta(hours=36),
        pd.Timedelta("36h"),
        np.timedelta64(36, "h"),
    ):
        assert mask(window).past_ticks == mask(window).future_ticks == hours
        assert mask(window, causal=True).past_ticks == hours
        assert not mask(window, causal=True).HasField("future_ticks")
    assert mask(("1ns", None)).past_ticks == 1
    assert not mask(("1ns", None)).HasField("future_ticks")
    assert mask(("1ns", "0s")).future_ticks == 0
    seconds = mask("90s", at=np.arange(3.0), time_unit="s")
    assert seconds.past_time == 90.0 and not seconds.HasField("past_ticks")
    assert mask(7, at=np.arange(3), time_unit="positions").past_ticks == 7
    for wrong in (
        "36",
        "36 fortnights",
        36,
        "0.1ns",
        "-1s",
        np.timedelta64("NaT", "s"),
    ):
        with pytest.raises(ValueError, match="window"):
            mask(wrong)
