"""Sequences of different lengths in one call."""

import asyncio

import numpy as np
import pandas as pd
import pytest

import attnd
from attnd.ragged import ragged

RNG = np.random.default_rng(16)
TOLERANCE = 2e-5
# Rows and keys of each sequence; the third sees nothing.
LENGTHS = [(3, 5), (1, 1), (2, 0), (7, 2), (0, 4), (4, 9)]
PER_ROW = ("output", "lse", "entropy")


def random(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def sequences(side, width, heads):
    lead = () if heads is None else (heads,)
    return [random(*lead, pair[side], width) for pair in LENGTHS]


def stamps(side):
    start = np.datetime64("2024-01-01")
    return [
        start + np.sort(RNG.integers(0, 99, pair[side])).astype("m8[s]")
        for pair in LENGTHS
    ]


@pytest.mark.parametrize(
    "outputs",
    [
        ("output", "lse", "entropy", "key_mass", "top_k"),
        ("output", "lse", "entropy", "key_mass", "top_k", "scores", "weights"),
    ],
    ids=["packed", "padded"],
)
@pytest.mark.parametrize("heads", [None, 2])
def test_sequences_of_different_lengths_answer_as_alone(client, heads, outputs):
    queries, keys, values = (
        sequences(side, width, heads) for side, width in ((0, 4), (1, 4), (1, 3))
    )
    query_times, key_times = stamps(0), stamps(1)
    valid = [RNG.random(pair[1]) < 0.8 for pair in LENGTHS]
    observed = [RNG.random((pair[1], 3)) < 0.8 for pair in LENGTHS]
    how = dict(
        encoding="two_sided", causal=True, window="50s", outputs=outputs, top_k=2
    )
    together = client.attend_ragged(
        queries,
        keys,
        values,
        query_times=query_times,
        key_times=key_times,
        key_valid=valid,
        value_observed=observed,
        **how,
    )
    for i in range(len(LENGTHS)):
        lead = (lambda a: a) if heads is None else (lambda a: a[None])
        alone = client.attend(
            lead(queries[i]),
            lead(keys[i]),
            lead(values[i]),
            query_time=query_times[i],
            key_time=key_times[i],
            key_valid=valid[i],
            value_observed=observed[i],
            **how,
        )
        own = (lambda a: a) if heads is None else (lambda a: a[0])
        for name in outputs:
            if name == "top_k":
                indices = together[i].top_k.indices
                np.testing.assert_array_equal(indices, own(alone.top_k.indices))
                there = indices >= 0
                np.testing.assert_array_equal(
                    together[i].top_k.times[there], own(alone.top_k.times)[there]
                )
                one, other = together[i].top_k.weights, own(alone.top_k.weights)
            else:
                one, other = getattr(together[i], name), own(getattr(alone, name))
            assert one.shape == other.shape, name
            np.testing.assert_allclose(one, other, atol=TOLERANCE, err_msg=name)


def test_packed_sequences_send_their_own_rows_alone():
    short, long = random(3, 8), random(1000, 8)
    made = ragged([short] * 50 + [long], [short] * 50 + [long], [short] * 50 + [long])
    rows = 50 * 3 + 1000
    assert made.request.nbytes < 3 * rows * 8 * 4 + 2000


def test_positions_of_short_sequences_end_where_they_end(client):
    q, k = [random(2, 4), random(1, 4)], [random(3, 4), random(6, 4)]
    for how in (dict(), dict(encoding="positions"), dict(causal="index")):
        how = {"causal": True, **how}
        together = client.attend_ragged(q, k, k, **how)
        for i in range(2):
            alone = client.attend(q[i], k[i], k[i], **how)
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


def test_bfloat16_sequences_stay_bfloat16(client):
    full = [random(3, 4), random(5, 4)]
    short = [attnd.BFloat16.from_float32(item) for item in full]
    for together, item in zip(client.attend_ragged(short, short, short), short):
        alone = client.attend(item, item, item).output
        for one in (together.output, alone):
            assert getattr(one, "dtype", None) is None or one.dtype.name == "bfloat16"
        bits = [getattr(a, "bits", a) for a in (together.output, alone)]
        np.testing.assert_array_equal(*bits)


def test_the_asynchronous_client_answers_alike(client, server):
    q = [random(3, 4), random(5, 4)]

    async def together():
        async with attnd.AsyncClient(server.target) as shared:
            return await shared.attend_ragged(q, q, q, causal=True)

    for one, other in zip(
        asyncio.run(together()), client.attend_ragged(q, q, q, causal=True)
    ):
        np.testing.assert_array_equal(one.output, other.output)


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
    with pytest.raises(ValueError, match="key_valid: expected one array"):
        client.attend_ragged([a], [a], [a], key_valid=[np.ones(3, bool)])


def test_types_are_not_mixed_silently():
    client = attnd.Client()
    a = random(2, 4)
    for other in (a.astype(np.float16), attnd.BFloat16.from_float32(a)):
        with pytest.raises(TypeError, match=r"^values\[1\]: elements of type"):
            client.attend_ragged([a, a], [a, a], [a, other])
    bits = attnd.BFloat16.from_float32(a)
    with pytest.raises(TypeError, match=r"^keys\[1\]: elements of type"):
        client.attend_ragged([a, a], [bits, bits.bits], [a, a])


@pytest.mark.parametrize("option", ["bias", "key_lengths", "layout"])
def test_what_has_rows_of_its_own_is_refused(option):
    a = random(2, 4)
    with pytest.raises(ValueError, match=f"attend_ragged: {option} cannot be given"):
        attnd.Client().attend_ragged([a], [a], [a], **{option: a})
