"""Sequences of different lengths, and histories in pieces."""

import numpy as np
import pandas as pd
import pytest

import attnd
import oracle
from running import Attnd

RNG = np.random.default_rng(16)
TOLERANCE = 2e-5


def random(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("heads", [None, 2])
def test_sequences_of_different_lengths_answer_as_alone(client, heads):
    lengths = [(3, 5), (1, 1), (7, 2), (4, 9)]

    def sequences(side, width):
        lead = () if heads is None else (heads,)
        return [random(*lead, pair[side], width) for pair in lengths]

    queries, keys, values = sequences(0, 4), sequences(1, 4), sequences(1, 3)
    start = np.datetime64("2024-01-01")
    query_times, key_times = (
        [
            start + np.sort(RNG.integers(0, 99, pair[s])).astype("m8[s]")
            for pair in lengths
        ]
        for s in (0, 1)
    )
    how = dict(
        encoding="two_sided",
        causal=True,
        window="50s",
        outputs=("output", "lse", "scores", "weights"),
    )
    together = client.attend_ragged(
        queries, keys, values, query_times=query_times, key_times=key_times, **how
    )
    for i, (rows, columns) in enumerate(lengths):
        lead = (lambda a: a) if heads is None else (lambda a: a[None])
        alone = client.attend(
            lead(queries[i]),
            lead(keys[i]),
            lead(values[i]),
            query_time=query_times[i],
            key_time=key_times[i],
            **how,
        )
        for name in ("output", "lse", "scores", "weights"):
            one = getattr(alone, name) if heads is None else getattr(alone, name)[0]
            np.testing.assert_allclose(getattr(together[i], name), one, atol=TOLERANCE)


def test_positions_of_short_sequences_end_where_they_end(client):
    q, k = [random(2, 4), random(1, 4)], [random(3, 4), random(6, 4)]
    together = client.attend_ragged(q, k, k, causal=True, encoding=None)
    for i in range(2):
        alone = client.attend(q[i], k[i], k[i], causal=True)
        np.testing.assert_allclose(together[i].output, alone.output, atol=TOLERANCE)


def test_times_of_different_units_meet(client):
    q = [random(2, 4)] * 2
    mixed = [
        np.arange(2).astype("M8[s]"),
        pd.DatetimeIndex([0, 10**9], tz="Asia/Tokyo"),
    ]
    first, second = client.attend_ragged(
        q, q, q, query_times=mixed, key_times=mixed, encoding="two_sided"
    )
    np.testing.assert_array_equal(first.output, second.output)


def test_ragged_lists_that_do_not_match_are_refused():
    client = attnd.Client()
    a, b = random(2, 4), random(3, 4)
    times = [np.arange(2)]
    for match, arguments in {
        "expected the same number": ([a], [a, a], [a]),
        r"values\[0\]: 3 rows": ([a], [a], [b]),
        r"keys\[1\]: 1 heads of width 2": ([a, a], [a, a[:, :2]], [a, a]),
    }.items():
        with pytest.raises(ValueError, match=match):
            client.attend_ragged(*arguments)
    with pytest.raises(ValueError, match="key_times: missing"):
        client.attend_ragged([a], [a], [a], query_times=times, time_unit="s")
    with pytest.raises(ValueError, match=r"key_times\[0\]: shape \(3,\)"):
        client.attend_ragged(
            [a], [a], [a], query_times=times, key_times=[np.arange(3)], time_unit="s"
        )


@pytest.mark.parametrize("key_chunk", [1, 7, 40, 100])
def test_pieces_merge_to_one_pass(client, key_chunk):
    q, k, v = random(2, 4, 11, 8), random(2, 2, 40, 8), random(2, 2, 40, 3)
    tq, tk = np.sort(RNG.integers(0, 60, 11)), RNG.integers(0, 60, 40)
    valid = RNG.random((2, 40)) < 0.8
    bias = random(1, 1, 11, 40)
    how = dict(
        query_time=tq,
        key_time=tk,
        time_unit="s",
        encoding="two_sided",
        causal=True,
        window="20s",
        key_valid=valid,
        bias=bias,
        outputs=("output", "lse"),
    )
    whole = client.attend(q, k, v, **how)
    pieces = client.attend_sharded(q, k, v, key_chunk=key_chunk, **how)
    np.testing.assert_allclose(pieces.output, whole.output, atol=TOLERANCE)
    np.testing.assert_allclose(pieces.lse, whole.lse, atol=TOLERANCE)
    turned = [array.transpose(0, 2, 1, 3) for array in (q, k, v)]
    blhd = client.attend_sharded(*turned, key_chunk=key_chunk, layout="blhd", **how)
    np.testing.assert_allclose(
        blhd.output.transpose(0, 2, 1, 3), whole.output, atol=TOLERANCE
    )


def test_positions_stay_when_keys_are_cut(client):
    q, k, v = random(3, 8), random(10, 8), random(10, 2)
    for causal in (False, True):
        how = dict(encoding="positions", causal=causal)
        whole = client.attend(q, k, v, **how).output
        pieces = client.attend_sharded(q, k, v, key_chunk=4, **how).output
        np.testing.assert_allclose(pieces, whole, atol=TOLERANCE)


def test_rows_without_keys_and_nan_values_are_as_in_one_pass(client):
    q, k, v = random(4, 2), random(4, 2), random(4, 2)
    v[3, 0] = np.nan
    t = np.array([0, 10, 20, 30])
    how = dict(query_time=t - 5, key_time=t, time_unit="s", causal=True)
    whole = client.attend(q, k, v, outputs=("output", "lse"), **how)
    pieces = client.attend_sharded(q, k, v, key_chunk=2, **how)
    assert np.isneginf(pieces.lse[0]) and not pieces.output[0].any()
    np.testing.assert_allclose(pieces.lse, whole.lse, atol=TOLERANCE)
    late = client.attend_sharded(
        q, k, v, key_chunk=2, query_time=t, key_time=t, time_unit="s", causal=True
    )
    assert np.isnan(late.output[:, 0]).tolist() == [False, False, False, True]


def test_replicas_share_a_history_longer_than_one_message(client, server):
    rows = (160 << 20) // (2 * 64 * 4)
    k = np.broadcast_to(random(1, 64), (rows, 64))
    v = np.broadcast_to(
        np.arange(rows, dtype=np.float32)[:, None] / np.float32(rows), (rows, 64)
    )
    q = random(2, 64)
    with Attnd() as second:
        answer = client.attend_sharded(
            q, k, v, key_chunk=rows // 5, endpoints=[server.target, second.target]
        )
        with attnd.Client(second.target) as other:
            again = client.attend_sharded(
                q, k, v, key_chunk=rows // 5, endpoints=[client, other]
            )
    # All keys are alike, so every row is the mean of the values.
    np.testing.assert_allclose(answer.output, (rows - 1) / 2 / rows, rtol=1e-4)
    np.testing.assert_array_equal(answer.output, again.output)


@pytest.mark.parametrize(
    "option",
    [
        {"prefix": 1},
        {"window_keys": 3},
        {"causal": "index"},
        {"key_lengths": [3]},
        {"linear": attnd.Linear()},
    ],
)
def test_what_looks_at_all_keys_is_refused(option):
    a = random(4, 2)
    with pytest.raises(ValueError, match="piece by piece"):
        attnd.Client().attend_sharded(a, a, a, key_chunk=2, **option)


def test_the_oracle_itself_is_merged_right():
    q, k, v = random(3, 2), random(6, 2), random(6, 2)
    whole = oracle.attention(q, k, v)
    parts = [oracle.attention(q, k[s], v[s]) for s in (slice(0, 2), slice(2, 6))]
    total = np.logaddexp(parts[0][1], parts[1][1])
    output = sum(np.exp(lse - total)[:, None] * out for out, lse in parts)
    np.testing.assert_allclose(output, whole[0], rtol=1e-12)
