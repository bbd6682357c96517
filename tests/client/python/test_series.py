"""Gaps and anomalies of pandas series."""

import numpy as np
import pandas as pd
import pytest

import attnd

RNG = np.random.default_rng(1958)
DAYS = pd.date_range("2020-01-01", periods=1500, freq="D", tz="UTC")


def seasons(index):
    """A year's wave on a slow slope, without noise."""
    days = (index - DAYS[0]) / pd.Timedelta("1D")
    return pd.Series(
        3 * np.cos(2 * np.pi * days / 365.25) + 0.002 * days, index=index, name="ppm"
    )


def weights_by_hand(lags_days, plane_weights=(8.0, 4.0), slope=0.01):
    """The encoding `season` of attnd.yaml, by its formula."""
    turns = 2 * np.pi * lags_days / 365.25
    logits = (
        plane_weights[0] * np.cos(turns)
        + plane_weights[1] * np.cos(2 * turns)
        - slope * abs(lags_days)
    )
    return np.exp(logits - logits.max(axis=1, keepdims=True))


def in_days(index):
    return ((index - DAYS[0]) / pd.Timedelta("1D")).to_numpy()


def test_estimates_are_the_weighted_means_of_the_formula(client):
    series = pd.Series(RNG.standard_normal(300), index=DAYS[:300])
    series.iloc[RNG.integers(0, 300, 40)] = np.nan
    at = DAYS[10:290:7] + pd.Timedelta("5h")
    got = client.interpolate(series, at, encoding="season", trend=-1)
    known = series.dropna()
    weights = weights_by_hand(in_days(at)[:, None] - in_days(known.index)[None, :])
    expected = weights @ known.to_numpy() / weights.sum(axis=1)
    np.testing.assert_allclose(got, expected, atol=1e-5)
    assert got.index.equals(at)


def test_the_sample_itself_is_hidden_from_its_estimate(client):
    series = pd.Series(RNG.standard_normal(200), index=DAYS[:200])
    series.iloc[[3, 50, 51]] = np.nan
    got = client.leave_one_out(series, encoding="season", trend=-1)
    lags = in_days(series.index)[:, None] - in_days(series.index)[None, :]
    weights = weights_by_hand(lags) * (lags != 0) * series.notna().to_numpy()
    expected = weights @ series.fillna(0).to_numpy() / weights.sum(axis=1)
    np.testing.assert_allclose(got, expected, atol=1e-5)
    past = client.leave_one_out(series, encoding="season", trend=-1, causal=True)
    weights = weights * (lags > 0)
    with np.errstate(invalid="ignore"):
        expected = weights @ series.fillna(0).to_numpy() / weights.sum(axis=1)
    np.testing.assert_allclose(past, expected, atol=1e-5)
    assert np.isnan(past.iloc[0])


def test_gaps_of_a_seasonal_series_are_filled(client):
    whole = seasons(DAYS)
    series = whole.copy()
    # Around a peak of the wave, which a straight line cuts off.
    series.iloc[686:776] = np.nan
    filled = client.interpolate(series, encoding="season", weights=[200, 50], trend=1)
    assert filled.name == "ppm" and filled.index.equals(series.index)
    known = series.notna()
    assert (filled[known] == series[known]).all()
    straight = series.interpolate("time")
    error = (filled - whole).abs()[~known].max()
    assert error < 0.2 < 0.8 < (straight - whole).abs()[~known].max()


def test_columns_are_estimated_from_their_own_samples(client):
    frame = pd.DataFrame({"a": seasons(DAYS[:400]), "b": -seasons(DAYS[:400])})
    frame.iloc[50:80, 0] = np.nan
    frame.iloc[200:260, 1] = np.nan
    together = client.interpolate(frame, encoding="season")
    assert list(together.columns) == ["a", "b"] and together.notna().all(axis=None)
    for name in frame:
        alone = client.interpolate(frame[name], encoding="season")
        np.testing.assert_allclose(together[name], alone, atol=1e-6)


def test_times_and_zones_of_the_wanted_index_are_kept(client):
    series = seasons(DAYS[:60])
    berlin = pd.date_range("2020-01-10", periods=5, freq="D", tz="Europe/Berlin")
    got = client.interpolate(series, berlin, encoding="season")
    assert got.index.equals(berlin)
    utc = client.interpolate(series, berlin.tz_convert("UTC"), encoding="season")
    np.testing.assert_array_equal(got.to_numpy(), utc.to_numpy())
    weekly = client.interpolate(series, "7D", encoding="season")
    assert weekly.index.equals(DAYS[:60:7])
    naive = series.tz_localize(None)
    with pytest.raises(ValueError, match="series.index: .*without a zone"):
        client.interpolate(naive, encoding="season")
    same = client.interpolate(naive, "7D", encoding="season", naive="UTC")
    np.testing.assert_array_equal(same.to_numpy(), weekly.to_numpy())


def test_windows_and_causality_hide_samples(client):
    series = pd.Series([1.0, 2.0, 10.0], index=DAYS[[0, 1, 40]])
    how = dict(encoding="season", trend=-1)
    at = DAYS[[1, 20]]
    near = client.interpolate(series, at, window="2d", **how)
    assert 1 < near.iloc[0] < 2 and np.isnan(near.iloc[1])
    past = client.interpolate(series, at, causal=True, **how)
    assert (past < 2).all()


def test_passes_average_what_is_left_over(client):
    series = seasons(DAYS[:200]) + pd.Series(RNG.standard_normal(200), index=DAYS[:200])
    one = client.interpolate(series, series.index, encoding="season")
    rest = client.interpolate(
        series - one, series.index, encoding="two_sided", trend=-1
    )
    both = client.interpolate(
        series, series.index, encoding=["season", "two_sided"], weights=[[8, 4], None]
    )
    np.testing.assert_allclose(both, one + rest, atol=1e-4)


def test_spikes_stand_out_and_nothing_else(client):
    series = seasons(DAYS) + pd.Series(0.1 * RNG.standard_normal(len(DAYS)), index=DAYS)
    places = [200, 700, 701, 1300]
    series.iloc[places] += [2, -2, -2, 2]
    series.iloc[400:420] = np.nan
    how = dict(encoding="season", weights=[200, 50], trend=1)
    first = client.anomaly_scores(series, **how)
    assert set(places) <= set(np.flatnonzero(first.abs() > 6))
    # Neighbours of two spikes are spoiled, until these are hidden.
    scores = client.anomaly_scores(series, hide=first.abs() > 6, **how)
    assert scores.isna().equals(series.isna())
    assert sorted(np.flatnonzero(scores.abs() > 6)) == places
    assert (np.sign(scores.iloc[places]) == [1, -1, -1, 1]).all()
    # Residuals of noise are normal deviates: their scale is that of the noise.
    quiet = scores.drop(series.index[places]).dropna()
    assert 0.8 < quiet.std() < 1.4


def test_hidden_samples_spoil_no_estimate(client):
    series = pd.Series(0.0, index=DAYS[:100])
    series.iloc[50] = 1e4
    hide = series > 1
    with_it = client.leave_one_out(series, encoding="season", trend=-1)
    without = client.leave_one_out(series, encoding="season", trend=-1, hide=hide)
    assert with_it.abs().max() > 1 and without.abs().max() == 0


def test_constant_series_have_no_anomalies(client):
    scores = client.anomaly_scores(
        pd.Series(5.0, index=DAYS[:50]), encoding="season", trend=0
    )
    assert (scores.abs() < 1e-3).all()


def test_wrong_arguments_are_named(client):
    series = seasons(DAYS[:20])
    with pytest.raises(ValueError, match="weights: 3, but encoding 'season' has 2"):
        client.interpolate(series, encoding="season", weights=[1, 2, 3])
    with pytest.raises(ValueError, match="weights: -1"):
        client.interpolate(series, encoding="season", weights=[1, -1])
    with pytest.raises(TypeError, match="series: ndarray"):
        client.interpolate(series.to_numpy(), encoding="season")
    with pytest.raises(attnd.UnknownEncoding):
        client.interpolate(series, encoding="nope_such")
