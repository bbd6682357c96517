"""Linear attention, and its state carried from piece to piece."""

import pickle

import numpy as np
import pytest

import attnd
import oracle

RNG = np.random.default_rng(11)
# Of the sum of the sizes of what is added up: the server's promises for one pass,
# and for a stream in pieces against one pass.
ONE_PASS, IN_PIECES = 1e-5, 1e-6
ROWS, RATE, SCALE = 90, 0.05, 0.5
FADE = {"timeUnit": "1s", "blocks": [{"componentDecay": {"rates": [RATE]}}]}


def random(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


Q, K, V = random(ROWS, 8), random(ROWS, 8), random(ROWS, 3)
T = np.cumsum(RNG.exponential(1.0, ROWS) * 1e9).astype(np.int64)
LAG = (T[:, None] - T[None, :]) / 1e9
DECAY = np.where(LAG >= 0, np.exp(-RATE * np.maximum(LAG, 0)), 0)


def attend(client, rows=slice(None), keys=None, **options):
    keys = rows if keys is None else keys
    return client.attend(
        Q[rows], K[keys], V[keys], query_time=T[rows], key_time=T[keys],
        time_unit="ns", encoding=FADE, scale=SCALE, linear=attnd.Linear(**options),
    )  # fmt: skip


def check(output, expected, sizes, share=ONE_PASS):
    assert (abs(output - expected) <= share * sizes).all()


def test_it_is_the_decayed_sum_over_the_past(client):
    expected, sizes = oracle.linear(Q, K, V, SCALE * DECAY)
    check(attend(client).output, expected, sizes)


def test_it_may_look_both_ways(client):
    both = np.exp(-RATE * abs(LAG))
    expected, sizes = oracle.linear(Q, K, V, SCALE * both)
    found = client.attend(
        Q, K, V, query_time=T, key_time=T, time_unit="ns", encoding=FADE, scale=SCALE,
        linear=attnd.Linear(bidirectional=True), two_sided="absolute_lag",
    )  # fmt: skip
    check(found.output, expected, sizes)


def test_a_normalised_sum_over_positive_features_is_a_mean(client):
    def features(x):
        x = x.astype(float)
        return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))

    how = dict(normaliser="sum", feature_map="elu_plus_one")
    weights = DECAY * (features(Q) @ features(K).T)
    expected = (weights @ V) / weights.sum(axis=1, keepdims=True)
    # All weights are positive, so the error is a share of the largest value.
    np.testing.assert_allclose(
        attend(client, **how).output, expected, atol=4 * ONE_PASS * abs(V).max()
    )


def test_held_keys_count_for_as_long_as_they_are_held(client):
    held = np.zeros((ROWS, ROWS))
    for j in range(ROWS):
        end = T[j + 1] if j + 1 < ROWS else np.iinfo(np.int64).max
        until = np.minimum(T, end)
        # The integral of exp(-RATE (t - u)) over u from the key's time on.
        whole = np.exp(-RATE * (T - until) / 1e9) - np.exp(-RATE * (T - T[j]) / 1e9)
        held[:, j] = np.where(T >= T[j], whole / RATE, 0)
    expected, sizes = oracle.linear(Q, K, V, SCALE * held)
    found = attend(client, input_rule="zero_order_hold").output
    check(found, expected, sizes + 1e-6)


def stream(client, pieces, **options):
    state, out = None, []
    for begin, end in zip(pieces, pieces[1:]):
        answer = attend(
            client, slice(begin, end), initial_state=state, return_state=True, **options
        )
        # A state is kept or sent as bytes.
        state = pickle.loads(pickle.dumps(answer.final_state))
        out.append(answer.output)
    return np.concatenate(out), state


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"normaliser": "sum", "feature_map": "softplus"},
        {"input_rule": "zero_order_hold"},
        {"input_rule": "trapezoid"},
    ],
)
def test_a_stream_in_pieces_is_one_pass(client, options):
    whole = attend(client, **options).output
    pieces, _ = stream(client, [0, 1, 20, 21, 70, ROWS], **options)
    sizes = oracle.linear(Q, K, V, SCALE * DECAY)[1]
    np.testing.assert_allclose(pieces, whole, atol=IN_PIECES * sizes.max())


def test_states_of_segments_add_up_in_any_order(client):
    bounds = [0, 25, 40, 60]
    states = [
        attend(client, slice(a, b), return_state=True).final_state
        for a, b in zip(bounds, bounds[1:])
    ]
    rest = slice(60, ROWS)
    expected = attend(client).output[rest]
    sizes = oracle.linear(Q, K, V, SCALE * DECAY)[1]
    for order in ([0, 1, 2], [2, 0, 1]):
        first, *others = (states[i] for i in order)
        found = attend(client, rest, initial_state=first, merge_states=others).output
        check(found, expected, sizes[rest], IN_PIECES)


@pytest.mark.parametrize("how", [{}, {"normaliser": "sum", "feature_map": "relu"}])
def test_merged_states_are_the_state_of_the_whole(client, how):
    states = [
        attend(client, slice(a, b), return_state=True, **how).final_state
        for a, b in ((40, 60), (0, 25), (25, 40))
    ]
    merged = attnd.merge_states(
        client, states, linear=attnd.Linear(**how), time_unit="ns", encoding=FADE
    )
    rest = slice(60, ROWS)
    expected = attend(client, **how).output[rest]
    found = attend(client, rest, initial_state=merged, **how).output
    sizes = oracle.linear(Q, K, V, SCALE * DECAY)[1]
    np.testing.assert_allclose(found, expected, atol=IN_PIECES * sizes.max())
    with pytest.raises(ValueError, match="at least one"):
        attnd.merge_states(client, [])


def test_no_state_comes_unasked_and_a_strange_one_is_refused(client):
    assert attend(client).final_state is None
    state = attend(client, slice(0, 9), return_state=True).final_state
    with pytest.raises(attnd.InvalidRequest, match="initial_state"):
        client.attend(Q[9:, :4], K[9:, :4], V[9:], query_time=T[9:], key_time=T[9:],
            time_unit="ns", encoding=FADE, linear=attnd.Linear(initial_state=state),
        )  # fmt: skip
    with pytest.raises(ValueError, match="^linear.normaliser: 'mean' is not known"):
        attend(client, normaliser="mean")


def test_a_learned_clock_drives_the_decay(client):
    ticks = np.cumsum(RNG.random(ROWS)).astype(np.float32).reshape(1, 1, ROWS)
    answer = client.attend(
        Q, K, V, query_time=T, key_time=T, time_unit="ns", scale=SCALE,
        encoding={"timeUnit": "1s", "preset": {"mamba2": {}}}, linear=attnd.Linear(),
        query_clock=ticks, key_clock=ticks,
    )  # fmt: skip
    clock = ticks[0, 0].astype(float)
    decay = np.where(LAG >= 0, np.exp(-(clock[:, None] - clock[None, :])), 0)
    expected, sizes = oracle.linear(Q, K, V, SCALE * decay)
    check(answer.output, expected, sizes)
