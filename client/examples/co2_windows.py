"""Work for the pipelines: windows of the CO2 series, each with a week to estimate."""

from pathlib import Path

import numpy as np
import pandas as pd

import attnd

WEEKS = 52
# Of attnd.yaml: the level of the weeks around.
ENCODING = "co2_level"


def windows():
    """`at`, `times` (texts), `values` and the hidden `truth` of every sixth week."""
    path = Path(__file__).with_name("co2_weekly.csv")
    series = pd.read_csv(path, index_col="time", parse_dates=True)["co2_ppm"]
    for middle in range(WEEKS, len(series) - WEEKS, 6):
        around = series.iloc[middle - WEEKS // 2 : middle + WEEKS // 2]
        others = around.drop(series.index[middle])
        yield {
            "at": str(series.index[middle]),
            "times": [str(time) for time in others.index],
            "values": others.tolist(),
            "truth": float(series.iloc[middle]),
        }


def arguments(at, times, values):
    """Arguments of attend() for one window ([L]) or a batch of them ([B, L]).

    Queries and keys are zero, so the time alone weighs; values are taken relative
    to their mean, which is returned as well.
    """
    at = np.asarray(at, "datetime64[s]")[..., None]
    values = np.asarray(values, np.float64)
    level = values.mean(axis=-1, keepdims=True)
    if values.ndim == 2:
        values, level_of_rows = values[:, None], level[:, None]
    else:
        level_of_rows = level
    rows = (values - level_of_rows)[..., None].astype(np.float32)
    return level, dict(
        query=np.zeros((*rows.shape[:-2], 1, 1), np.float32),
        key=np.zeros_like(rows),
        value=rows,
        query_time=at,
        key_time=np.asarray(times, "datetime64[s]"),
        encoding=ENCODING,
    )


def estimate_batch(client: attnd.Client, at, times, values):
    """The estimates of windows of equal length, in one call."""
    level, how = arguments(at, times, values)
    output = client.attend(**how).output
    return output[:, 0, 0, 0] + level[:, 0]
