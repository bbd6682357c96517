"""Finds injected faults in four columns of air quality with missing stretches.

    python3 air_quality.py --target 127.0.0.1:50051 [--out air_quality.png]

The server needs the encodings of attnd.yaml beside this file. Spikes are samples
far from what all other samples say about them; level shifts are times at which
the future says something else than the past. Prints precision and recall of both;
writes a plot if asked to (needs matplotlib).
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

import attnd

ENCODING = "nearby_days"
SPIKES_PER_COLUMN = 4
# In standard deviations of what the estimate leaves over.
FAULT_SIZE = 6.0
SPIKE_SCORE = 4.0
SHIFT_SCORE = 3.5
# Days around a shift that count as its place.
NEARBY = 2


def load():
    """Columns in robust standard units; ozone as its logarithm."""
    path = Path(__file__).with_name("airquality_1973.csv")
    frame = pd.read_csv(path, index_col="time", parse_dates=True).tz_localize("UTC")
    frame["ozone_ppb"] = np.log(frame["ozone_ppb"])
    centred = frame - frame.median()
    return centred / (1.4826 * centred.abs().median())


def noise(client, frame):
    left_over = frame - client.leave_one_out(frame, encoding=ENCODING)
    return 1.4826 * left_over.abs().median()


def with_spikes(frame, sizes, rng):
    faulty = frame.copy()
    truth = pd.DataFrame(False, index=frame.index, columns=frame.columns)
    for column in frame:
        known = np.flatnonzero(frame[column].notna())
        places = frame.index[rng.choice(known, SPIKES_PER_COLUMN, replace=False)]
        signs = rng.choice([-1, 1], SPIKES_PER_COLUMN)
        faulty.loc[places, column] += FAULT_SIZE * sizes[column] * signs
        truth.loc[places, column] = True
    return faulty, truth


def with_shifts(frame, sizes, rng):
    """In each column the level changes for one to two months."""
    faulty = frame.copy()
    edges = []
    for column in frame:
        begin = int(rng.integers(20, 60))
        end = begin + int(rng.integers(30, 60))
        change = FAULT_SIZE * sizes[column] * rng.choice([-1, 1])
        faulty.iloc[begin:end, frame.columns.get_loc(column)] += change
        edges += [(column, begin), (column, end)]
    return faulty, edges


def find_spikes(client, frame):
    first = client.anomaly_scores(frame, encoding=ENCODING)
    # Again, with the worst ones hidden from their neighbours.
    scores = client.anomaly_scores(
        frame, encoding=ENCODING, hide=first.abs() > SPIKE_SCORE
    )
    return scores, scores.abs() > SPIKE_SCORE


def jumps(client, frame):
    """What later samples say less what earlier ones say, in robust deviations."""

    def from_the_past(columns):
        return client.leave_one_out(columns, encoding=ENCODING, trend=-1, causal=True)

    backwards = frame[::-1].set_index(
        frame.index[0] + (frame.index[-1] - frame.index[::-1])
    )
    future = from_the_past(backwards)[::-1].set_index(frame.index)
    jump = future - from_the_past(frame)
    return jump / (1.4826 * (jump - jump.median()).abs().median())


def find_shifts(client, frame):
    """(column, row) of every local peak of the jump above the threshold."""
    found = []
    for column, jump in jumps(client, frame).items():
        height = jump.abs().fillna(0.0).to_numpy()
        while height.max() > SHIFT_SCORE:
            place = int(height.argmax())
            found.append((column, place))
            height[max(0, place - 5) : place + 6] = 0.0
    return found


def near(place, places):
    return any(c == place[0] and abs(p - place[1]) <= NEARBY for c, p in places)


def report(name, right, found, hit, injected):
    print(
        f"{name}: {injected} injected, {found} found, "
        f"precision {right / max(found, 1):.2f}, recall {hit / injected:.2f}"
    )


def plot(path, frame, faulty, estimate, flagged, truth):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, rows = plt.subplots(
        len(frame.columns), 1, figsize=(10, 9), sharex=True, constrained_layout=True
    )
    for axes, column in zip(rows, frame):
        axes.plot(estimate[column], color="tab:orange", lw=1, label="estimate")
        axes.plot(faulty[column], ".", color="tab:blue", ms=3, label="sample")
        for marks, style, label in (
            (truth[column], dict(marker="s", color="black"), "injected"),
            (flagged[column], dict(marker="o", color="tab:red"), "found"),
        ):
            axes.scatter(
                faulty.index[marks],
                faulty[column][marks],
                s=60 if label == "found" else 110,
                facecolors="none",
                edgecolors=style["color"],
                marker=style["marker"],
                label=label,
            )
        axes.set_ylabel(f"{column}\n(robust units)")
    rows[0].legend(ncols=4, loc="upper left", bbox_to_anchor=(0, 1.35))
    rows[0].set_title("Air quality, New York 1973: injected spikes", loc="right")
    fig.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()

    rng = np.random.default_rng(options.seed)
    frame = load()
    with attnd.Client(options.target) as client:
        sizes = noise(client, frame)
        spiky, truth = with_spikes(frame, sizes, rng)
        shifted, edges = with_shifts(frame, sizes, rng)
        scores, flagged = find_spikes(client, spiky)
        estimate = client.leave_one_out(spiky, encoding=ENCODING, hide=flagged)
        shifts = find_shifts(client, shifted)

    both = int((flagged & truth).to_numpy().sum())
    report(
        "spikes", both, int(flagged.to_numpy().sum()), both, int(truth.to_numpy().sum())
    )
    for (time, column), score in scores[flagged].stack().items():
        kind = "injected" if truth.loc[time, column] else "by itself"
        print(f"  {time:%Y-%m-%d} {column:14} score {score:+6.1f}  {kind}")
    report(
        "level shifts",
        sum(near(place, edges) for place in shifts),
        len(shifts),
        sum(near(edge, shifts) for edge in edges),
        len(edges),
    )
    if options.out:
        plot(options.out, frame, spiky, estimate, flagged, truth)
        print(f"plot {options.out}")


if __name__ == "__main__":
    main()
