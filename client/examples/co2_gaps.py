"""Fills the gaps of the CO2 series and judges the result on weeks that were hidden.

    python3 co2_gaps.py --target 127.0.0.1:50051 [--out co2_gaps.png]

The server needs the encodings of attnd.yaml beside this file. Prints the error on
40 hidden blocks of 13 weeks; writes a plot if asked to (needs matplotlib).
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

import attnd

BLOCKS, WEEKS = 40, 13


def load():
    path = Path(__file__).with_name("co2_weekly.csv")
    series = pd.read_csv(path, index_col="time", parse_dates=True)["co2_ppm"]
    return series.tz_localize("UTC")


def hide_blocks(series, seed):
    """The series without blocks of weeks, each with a visible week on both sides."""
    rng = np.random.default_rng(seed)
    hidden = np.zeros(len(series), bool)
    while hidden.sum() < BLOCKS * WEEKS:
        begin = rng.integers(1, len(series) - WEEKS)
        if not hidden[begin - 1 : begin + WEEKS + 1].any():
            hidden[begin : begin + WEEKS] = True
    return series.mask(hidden), hidden


def estimate(client, series, at=None):
    """First the seasons, then the level of the weeks around a gap."""
    return client.interpolate(
        series, at, encoding=["co2", "co2_level"], weights=[[8, 4], None]
    )


def rmse(estimates, truth):
    return float(np.sqrt(np.mean((estimates - truth) ** 2)))


def plot(path, series, visible, filled, weekly):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, (whole, part) = plt.subplots(2, 1, figsize=(10, 7), constrained_layout=True)
    for axes in (whole, part):
        axes.plot(weekly, color="tab:orange", lw=1, label="attention, every week")
        axes.plot(visible, ".", color="tab:blue", ms=2.5, label="observed")
        hidden = series[visible.isna()]
        axes.plot(hidden, ".", color="black", ms=2.5, label="observed, but hidden")
        axes.set_ylabel("CO2, ppm")
    part.plot(
        visible.interpolate("time")[visible.isna()],
        "x",
        color="tab:red",
        ms=3,
        label="straight line",
    )
    part.set_xlim(pd.Timestamp("1962-01-01"), pd.Timestamp("1967-01-01"))
    near = series["1962":"1966"]
    part.set_ylim(near.min() - 1, near.max() + 1)
    whole.set_title("Weekly CO2 at Mauna Loa: gaps filled by attention over time")
    whole.legend(loc="upper left")
    part.legend(loc="upper left", ncols=2)
    fig.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()

    series = load()
    visible, hidden = hide_blocks(series, options.seed)
    with attnd.Client(options.target) as client:
        filled = estimate(client, visible)
        weekly = estimate(client, visible, "7D")
    straight = visible.interpolate("time")
    print(
        f"{hidden.sum()} weeks hidden of {len(series)}: rmse attention "
        f"{rmse(filled[hidden], series[hidden]):.3f} ppm, straight line "
        f"{rmse(straight[hidden], series[hidden]):.3f} ppm"
    )
    print(f"{len(weekly) - len(series)} weeks without any observation filled as well")
    if options.out:
        plot(options.out, series, visible, filled, weekly)
        print(f"plot {options.out}")


if __name__ == "__main__":
    main()
