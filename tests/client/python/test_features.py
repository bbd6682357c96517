"""Masks, element types and outputs of the contract, against the oracle."""

import numpy as np
import pytest

import attnd
import oracle

RNG = np.random.default_rng(7)
# The server's promise for f32 output, relative to the largest value.
TOLERANCE = 2e-5
INF = np.inf


def random(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


Q, K, V = random(8, 4), random(11, 4), random(11, 3)
# In no order, with equal ones.
TQ = np.array([5, 0, 9, 9, 3, 14, 7, 2])
TK = np.array([4, 9, 0, 2, 9, 12, 5, 5, 1, 20, 7])
LAG = TQ[:, None] - TK[None, :]
TIMES = dict(query_time=TQ, key_time=TK, time_unit="s")


def check(answer, visible, **logits):
    """Output and lse are those of the visible keys."""
    output, lse = oracle.attention(Q, K, V, visible=visible, **logits)
    np.testing.assert_allclose(answer.output, output, atol=TOLERANCE)
    if answer.lse is not None:
        np.testing.assert_allclose(answer.lse, lse, atol=TOLERANCE)


# ---- element types


def halves(values):
    return values.astype(np.float16), values.astype(np.float16).astype(float)


def marked(values):
    bits = attnd.BFloat16.from_float32(values)
    return bits, bits.to_float32().astype(float)


def of_ml_dtypes(values):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    short = values.astype(ml_dtypes.bfloat16)
    return short, short.astype(float)


def as_float(array):
    return array.to_float32() if isinstance(array, attnd.BFloat16) else array


# Half a unit of the last place of a number below 1.
LAST_PLACE = {"float32": 0, "float16": 2**-11, "bfloat16": 2**-8}


@pytest.mark.parametrize("convert", [halves, marked, of_ml_dtypes])
def test_short_types_are_computed_in_float32_and_come_back_as_they_came(
    client, convert
):
    (q, q64), (k, k64), (v, v64) = map(convert, (Q, K, V))
    answer = client.attend(q, k, v, outputs=("output", "lse"))
    output, lse = oracle.attention(q64, k64, v64)
    name = "float16" if convert is halves else "bfloat16"
    found = as_float(answer.output)
    if not isinstance(answer.output, attnd.BFloat16):
        assert answer.output.dtype.name == name
    bound = TOLERANCE + LAST_PLACE[name] * abs(output)
    assert (abs(found.astype(float) - output) <= bound).all()
    np.testing.assert_allclose(answer.lse, lse, atol=TOLERANCE)


@pytest.mark.parametrize("wanted", ["float32", "float16", "bfloat16"])
def test_the_output_has_the_type_that_is_asked_for(client, wanted):
    v, v64 = halves(V)
    k, k64 = marked(K)
    answer = client.attend(Q, k, v, output_dtype=wanted).output
    output = oracle.attention(Q, k64, v64)[0]
    bound = TOLERANCE + LAST_PLACE[wanted] * abs(output)
    assert (abs(as_float(answer).astype(float) - output) <= bound).all()


# ---- which keys are seen


def test_causality_with_and_without_equal_times(client):
    how = dict(outputs=("output", "lse"), **TIMES)
    check(client.attend(Q, K, V, causal=True, **how), LAG >= 0)
    check(client.attend(Q, K, V, causal=True, strict=True, **how), LAG > 0)
    index = np.arange(8)[:, None] + 11 - 8 - np.arange(11)[None, :]
    check(client.attend(Q, K, V, causal="index", **how), index >= 0)
    check(client.attend(Q, K, V, causal="index", strict=True, **how), index > 0)


def test_windows_of_time_on_each_side(client):
    for past, future in ((4, 2), (None, 3), (5, None), (0, 0)):
        window = tuple(None if w is None else f"{w}s" for w in (past, future))
        visible = (LAG <= (INF if past is None else past)) & (
            -LAG <= (INF if future is None else future)
        )
        check(client.attend(Q, K, V, window=window, **TIMES), visible)
        floats = {**TIMES, "query_time": TQ / 2, "key_time": TK / 2}
        half = tuple(
            None if w is None else np.timedelta64(500 * w, "ms") for w in (past, future)
        )
        check(client.attend(Q, K, V, window=half, **floats), visible)


def keys_in_window(past, future, valid):
    """Counted over valid keys in order of time, then of rows."""
    place = oracle.ranks(np.where(valid, TK, 1000))
    visible = np.zeros((8, 11), bool)
    for i, t in enumerate(TQ):
        before = int((valid & (TK <= t)).sum())
        visible[i] = valid & (place >= before - past) & (place < before + future)
    return visible


def test_windows_in_keys_count_valid_keys_in_the_order_of_time(client):
    valid = np.ones(11, bool)
    valid[[1, 6]] = False
    for past, future in ((3, 0), (2, 4), (0, 1)):
        answer = client.attend(
            Q, K, V, window_keys=(past, future), key_valid=valid, **TIMES
        )
        check(answer, keys_in_window(past, future, valid))
    causal = client.attend(Q, K, V, window_keys=2, causal=True, **TIMES)
    check(causal, keys_in_window(2, 0, np.ones(11, bool)))


def test_the_prefix_is_seen_by_all(client):
    answer = client.attend(
        Q, K, V, prefix=3, causal=True, window="2s", **TIMES, outputs=("output", "lse")
    )
    check(answer, (LAG >= 0) & (LAG <= 2) | (oracle.ranks(TK) < 3))


def test_ranges_of_time_hide_the_other_keys(client):
    ranges = [(1, 4), (9, 12)]
    inside = ((TK >= 1) & (TK <= 4)) | ((TK >= 9) & (TK <= 12))
    visible = np.broadcast_to(inside, (8, 11))
    check(client.attend(Q, K, V, key_ranges=ranges, **TIMES), visible)
    start = np.datetime64("2024-03-10")
    stamps = dict(
        query_time=start + TQ.astype("m8[s]"), key_time=start + TK.astype("m8[s]")
    )
    dates = [
        tuple(np.datetime64(start, "s") + np.timedelta64(n, "s") for n in pair)
        for pair in ranges
    ]
    check(client.attend(Q, K, V, key_ranges=dates, **stamps), visible)


def test_packed_sequences_see_their_own_keys(client):
    answer = client.attend(
        Q, K, V, query_offsets=[0, 3, 3, 8], key_offsets=[0, 5, 7, 11], **TIMES
    )
    of_query = np.repeat([0, 2], [3, 5])
    of_key = np.repeat([0, 1, 2], [5, 2, 4])
    check(answer, of_query[:, None] == of_key[None, :])


def test_each_channel_averages_over_what_was_observed(client):
    observed = RNG.random(V.shape) < 0.6
    observed[:, 2] = False
    holes = np.where(observed, V, np.nan).astype(np.float32)
    answer = client.attend(
        Q, K, holes, value_observed=observed, outputs=("output", "lse")
    )
    for channel in range(3):
        seen = np.broadcast_to(observed[:, channel], (8, 11))
        expected = oracle.attention(Q, K, V[:, [channel]], visible=seen)[0]
        np.testing.assert_allclose(
            answer.output[:, [channel]], expected, atol=TOLERANCE
        )
    np.testing.assert_allclose(answer.lse, oracle.attention(Q, K, V)[1], atol=TOLERANCE)


# ---- arithmetic


def test_a_sink_takes_its_share_and_is_the_lse_of_empty_rows(client):
    answer = client.attend(
        Q, K, V, sinks=[0.5], causal=True, **TIMES, outputs=("output", "lse", "weights")
    )
    scores = oracle.logits(Q, K, visible=LAG >= 0)
    weights, lse = oracle.softmax(scores, 0.5)
    np.testing.assert_allclose(answer.weights, weights, atol=TOLERANCE)
    np.testing.assert_allclose(answer.lse, lse, atol=TOLERANCE)
    np.testing.assert_allclose(answer.output, weights @ V, atol=TOLERANCE)
    alone = client.attend(
        Q, K, V, sinks=[0.5], key_valid=np.zeros(11, bool), outputs=("output", "lse")
    )
    np.testing.assert_allclose(alone.lse, 0.5, atol=TOLERANCE)
    assert not alone.output.any()


def test_softcap_comes_before_the_bias(client):
    bias = random(8, 11)
    bias[:, 4] = -INF
    answer = client.attend(
        Q, K, V, scale=3.0, softcap=2.5, bias=bias, outputs=("output", "scores")
    )
    scores = oracle.logits(Q, K, 3.0, 2.5, np.where(np.isfinite(bias), bias, 0))
    scores = np.where(np.isfinite(bias), scores, -INF)
    np.testing.assert_allclose(answer.scores, scores, atol=TOLERANCE)
    expected = oracle.softmax(scores)[0] @ V
    np.testing.assert_allclose(answer.output, expected, atol=TOLERANCE)


def test_gates_add_up_between_key_and_query(client):
    gates = -RNG.random((1, 1, 11)).astype(np.float32)
    t = np.arange(11)
    encoding = {"timeUnit": "1s", "biases": [{"cumulativeGate": {}}]}
    answer = client.attend(
        K, K, V, query_time=t, key_time=t, time_unit="s", causal=True,
        gates=gates, encoding=encoding,
    )  # fmt: skip
    total = np.cumsum(gates[0, 0].astype(float))
    bias = total[:, None] - total[None, :]
    visible = t[:, None] >= t[None, :]
    expected = oracle.attention(K, K, V, np.where(visible, bias, 0), visible)[0]
    np.testing.assert_allclose(answer.output, expected, atol=TOLERANCE)


def test_pruning_tells_what_it_lost(client):
    rows = 1024
    k, v = random(rows, 4), random(rows, 2)
    t = np.arange(rows)
    how = dict(query_time=t, key_time=t, time_unit="s", encoding="two_sided")
    exact = client.attend(k, k, v, **how)
    pruned = client.attend(k, k, v, prune_tolerance=1e-6, **how)
    assert exact.stats.lost_mass_bound == 0
    assert pruned.stats.skipped_tiles > exact.stats.skipped_tiles
    assert 0 < pruned.stats.lost_mass_bound < 1e-6
    bound = 2 * pruned.stats.lost_mass_bound * abs(v).max() + TOLERANCE
    assert (abs(pruned.output - exact.output) <= bound).all()


# ---- outputs


def test_summaries_are_those_of_the_weights(client):
    answer = client.attend(
        Q, K, V, causal=True, **TIMES, top_k=4,
        outputs=("weights", "top_k", "key_mass", "entropy"),
    )  # fmt: skip
    weights = oracle.softmax(oracle.logits(Q, K, visible=LAG >= 0))[0]
    np.testing.assert_allclose(answer.weights, weights, atol=TOLERANCE)
    np.testing.assert_allclose(answer.key_mass, weights.sum(axis=0), atol=TOLERANCE)
    logs = np.log(np.where(weights > 0, weights, 1))
    np.testing.assert_allclose(
        answer.entropy, -(weights * logs).sum(axis=1), atol=TOLERANCE
    )
    top = answer.top_k
    count = np.minimum((LAG >= 0).sum(axis=1), 4)
    order = np.argsort(-weights, axis=1, kind="stable")[:, :4]
    for i in range(8):
        n = count[i]
        assert top.indices[i, :n].tolist() == order[i, :n].tolist()
        assert (top.indices[i, n:] == -1).all() and not top.weights[i, n:].any()
        np.testing.assert_allclose(
            top.weights[i, :n], weights[i, order[i, :n]], atol=TOLERANCE
        )
        assert (top.times[i, :n] == TK[order[i, :n]].astype("M8[s]")).all()


@pytest.mark.parametrize(
    "how, dtype",
    [
        (dict(time_unit="s"), "M8[ns]"),
        (dict(time_unit="positions"), "<i8"),
        (dict(time_unit="s", float=True), "<f8"),
        (None, None),
    ],
)
def test_times_of_the_top_keys_are_of_the_requests_kind(client, how, dtype):
    times = {}
    if how is not None:
        kind = float if how.pop("float", False) else int
        times = dict(query_time=TQ.astype(kind), key_time=TK.astype(kind), **how)
    top = client.attend(Q, K, V, outputs=["top_k"], top_k=1, **times).top_k
    if dtype is None:
        assert top.times is None
    else:
        assert top.times.dtype == np.dtype(dtype)
        best = oracle.logits(Q, K).argmax(axis=1)
        expected = times["key_time"][best].astype("M8[s]" if "M8" in dtype else dtype)
        assert (top.times[:, 0] == expected).all()
