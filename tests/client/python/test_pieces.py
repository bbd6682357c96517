"""Histories in pieces."""

import asyncio

import numpy as np
import pytest

import attnd
import oracle
from running import Attnd

RNG = np.random.default_rng(16)
TOLERANCE = 2e-5


def random(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


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


def test_pieces_of_bfloat16_are_cut_by_their_rows(client):
    q, k, v = (
        attnd.BFloat16.from_float32(random(*shape))
        for shape in ((2, 4, 3, 8), (2, 2, 10, 8), (2, 2, 10, 3))
    )
    whole = client.attend(q, k, v, output_dtype="float32").output
    pieces = client.attend_sharded(q, k, v, key_chunk=4).output
    np.testing.assert_allclose(pieces, whole, atol=TOLERANCE)


def test_the_asynchronous_client_merges_alike(client, server):
    q, k, v = random(5, 8), random(40, 8), random(40, 3)

    async def merged(endpoints):
        async with attnd.AsyncClient(server.target) as shared:
            return await shared.attend_sharded(
                q, k, v, key_chunk=7, endpoints=endpoints, causal=True
            )

    expected = client.attend_sharded(q, k, v, key_chunk=7, causal=True)
    for endpoints in (None, [server.target, server.target]):
        answer = asyncio.run(merged(endpoints))
        np.testing.assert_array_equal(answer.output, expected.output)
        np.testing.assert_array_equal(answer.lse, expected.lse)


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
