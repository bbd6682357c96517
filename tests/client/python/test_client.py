"""Calls to a real server."""

import asyncio
import inspect
import threading

import numpy as np
import pytest

import attnd
import oracle
from attnd.v1 import attention_pb2
from running import Scripted

RNG = np.random.default_rng(22)
# The server's promise for f32 output, relative to the largest value.
TOLERANCE = 2e-5


def random(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def test_attention_is_that_of_the_formula(client):
    q, k, v = random(7, 4), random(9, 4), random(9, 3)
    tq = np.sort(RNG.integers(0, 20, 7))
    tk = np.sort(RNG.integers(0, 20, 9))
    answer = client.attend(
        q,
        k,
        v,
        query_time=tq,
        key_time=tk,
        time_unit="s",
        encoding="two_sided",
        causal=True,
        window="8s",
        outputs=("output", "lse", "scores", "weights"),
        request_id="mine",
    )
    lag = tq[:, None] - tk[None, :]
    visible = (lag >= 0) & (lag <= 8)
    output, lse = oracle.attention(q, k, v, -0.25 * abs(lag), visible)
    np.testing.assert_allclose(answer.output, output, atol=TOLERANCE)
    np.testing.assert_allclose(answer.lse, lse, atol=TOLERANCE)
    assert (np.isneginf(answer.scores) == ~visible).all()
    np.testing.assert_allclose(
        answer.weights, np.exp(answer.scores - answer.lse[:, None]), atol=TOLERANCE
    )
    assert answer.request_id == "mine" and answer.stats.flops > 0
    assert answer.entropy is None and answer.top_k is None


def test_batches_heads_groups_and_layouts(client):
    q, k, v = random(2, 4, 5, 8), random(2, 2, 6, 8), random(2, 2, 6, 3)
    answer = client.attend(q, k, v).output
    assert answer.shape == (2, 4, 5, 3)
    for b in range(2):
        for h in range(4):
            expected = oracle.attention(q[b, h], k[b, h // 2], v[b, h // 2])[0]
            np.testing.assert_allclose(answer[b, h], expected, atol=TOLERANCE)
    turned = [array.transpose(0, 2, 1, 3) for array in (q, k, v)]
    again = client.attend(*turned, layout="blhd").output
    np.testing.assert_allclose(again.transpose(0, 2, 1, 3), answer, atol=TOLERANCE)
    one = [array[:1, :1].transpose(0, 2, 1, 3) for array in (q, k, v)]
    flat = client.attend(*(array[0, :, 0] for array in one), layout="blhd").output
    np.testing.assert_allclose(flat, answer[0, 0], atol=TOLERANCE)


def test_validity_lengths_bias_and_empty_axes(client):
    q, k, v = random(4, 2), random(5, 2), random(5, 2)
    valid = np.array([True, False, True, True, False])
    bias = random(4, 5)
    bias[0, 2] = -np.inf
    answer = client.attend(q, k, v, key_valid=valid, bias=bias).output
    visible = valid[None, :] & np.isfinite(bias)
    expected = oracle.attention(q, k, v, np.where(visible, bias, 0), visible)[0]
    np.testing.assert_allclose(answer, expected, atol=TOLERANCE)
    short = client.attend(
        q, k, v, query_lengths=[2], key_lengths=[3], outputs=("output", "lse")
    )
    assert np.isneginf(short.lse[2:]).all() and not short.output[2:].any()
    np.testing.assert_allclose(
        short.output[:2], oracle.attention(q[:2], k[:3], v[:3])[0], atol=TOLERANCE
    )
    none = client.attend(q, k[:0], v[:0], outputs=("output", "lse"))
    assert none.output.shape == (4, 2) and not none.output.any()
    assert np.isneginf(none.lse).all()
    assert client.attend(q[:0], k, v).output.shape == (0, 2)


def test_a_nan_value_shows_in_the_rows_that_see_it(client):
    q, k, v = random(3, 2), random(3, 2), random(3, 2)
    v[1, 0] = np.nan
    output = client.attend(q, k, v, causal=True).output
    assert np.isnan(output[:, 0]).tolist() == [False, True, True]
    assert np.isfinite(output[:, 1]).all()


def test_an_encoding_may_come_with_the_request(client):
    q, t = random(4, 2), np.arange(4)
    definition = {
        "timeUnit": "1s",
        "biases": [{"alibi": {"slopes": [0.25], "twoSided": True}}],
    }
    how = dict(query_time=t, key_time=t, time_unit="s")
    own = client.attend(q, q, q, encoding=definition, **how).output
    named = client.attend(q, q, q, encoding="two_sided", **how).output
    np.testing.assert_array_equal(own, named)
    with pytest.raises(ValueError, match="^encoding: "):
        attnd.request(q, q, q, encoding={"timUnit": "1s"})


def test_refusals_name_field_and_remedy(client):
    q, k = random(1, 3, 2, 4), random(1, 2, 2, 4)
    with pytest.raises(attnd.InvalidRequest) as caught:
        client.attend(q, k, k)
    assert caught.value.field_violations
    assert all(violation.description for violation in caught.value.field_violations)
    with pytest.raises(attnd.UnknownEncoding, match='did you mean "rope"') as caught:
        client.attend(q, q, q, encoding="ropee")
    assert caught.value.resource.type == "encoding"
    q4 = random(1, 1, 3, 2)
    many = np.full((1, 1, 3, 100_000), np.nan, np.float32)
    keys = random(1, 1, 100_000, 2)
    with pytest.raises(attnd.InvalidRequest, match="bias") as caught:
        client.attend(q4, keys, keys, bias=many)
    assert len(caught.value.text.encode()) <= 1024


def test_estimate_costs_the_shapes_alone(client):
    q = random(1, 8, 512, 64)
    cost = client.estimate(q, q, q, outputs=("output", "lse"))
    # Two products of Lq x Lk x D multiply-adds for each head.
    assert cost.flops == 2 * 2 * 8 * 512 * 512 * 64
    assert cost.response_bytes >= q.nbytes + 4 * 8 * 512


def test_large_answers_arrive_with_default_settings(client):
    q = random(1, 8, 512, 64)
    scores = client.attend(q, q, q, outputs=["scores"]).scores
    assert scores.nbytes == 8 << 20
    expected = q[0, 3, :5].astype(float) @ q[0, 3].astype(float).T / 8
    np.testing.assert_allclose(scores[0, 3, :5], expected, atol=TOLERANCE)


def test_requests_of_100_megabytes_arrive_with_default_settings(client):
    rows = 100_000_000 // (2 * 128 * 4)
    k = np.zeros((1, 1, rows, 128), np.float32)
    v = np.broadcast_to(np.float32(0.5), k.shape)
    request = attnd.request(random(1, 1, 1, 128), k, v)
    assert request.nbytes > 99_000_000
    np.testing.assert_allclose(client.send(request).output, 0.5, rtol=1e-6)


def test_an_answer_beyond_the_limit_is_refused_and_not_tried_again(client):
    q = np.zeros((1, 8, 16384, 64), np.float32)
    with pytest.raises(attnd.TooLarge) as caught:
        client.attend(q, q, q, outputs=["scores"])
    assert caught.value.resource.type == "limit"
    assert caught.value.retry_delay is None and caught.value.attempts == 1


def test_too_large_a_request_is_refused_before_it_is_sent(client):
    rows = (128 << 20) // (4 * 128)
    k = np.zeros((1, 1, rows, 128), np.float32)
    with pytest.raises(attnd.TooLarge, match="server's message_bytes = 134217728"):
        client.attend(k[:, :, :1], k, k)
    own = attnd.Client(client.settings.endpoints, message_bytes=1000)
    with own, pytest.raises(attnd.TooLarge, match="client's message_bytes = 1000"):
        own.attend(k[:, :, :9], k[:, :, :9], k[:, :, :9])


def test_the_servers_limit_is_asked_for_again_before_a_refusal():
    limits = [5 << 20, 50 << 20]

    def script(path, message, context):
        if path.endswith("GetServerInfo"):
            info = attention_pb2.GetServerInfoResponse()
            info.limits.message_bytes = limits[len(server.paths("GetServerInfo")) - 1]
            return info.SerializeToString()
        return attention_pb2.AttendResponse().SerializeToString()

    # A Scripted server takes no more than 4 MiB itself, so nothing is sent.
    k = np.zeros((1, 1, (6 << 20) // 8, 1), np.float32)
    with Scripted(script) as server, attnd.Client(server.target) as client:
        with pytest.raises(attnd.TooLarge, match=f"= {5 << 20}"):
            client._check_size(attnd.request(k, k, k).nbytes)
        client._check_size(attnd.request(k, k, k).nbytes)
        client._check_size(attnd.request(k, k, k).nbytes)
        assert len(server.paths("GetServerInfo")) == 2


def test_other_methods(client):
    assert client.health() == client.health("attnd.v1.AttentionScoring") == "SERVING"
    with pytest.raises(attnd.AttndError) as caught:
        client.health("nope")
    assert caught.value.code == "NOT_FOUND"
    info = client.server_info()
    assert info.limits.message_bytes == 128 << 20 and info.workers >= 1
    names = [encoding.name for encoding in client.list_encodings()]
    assert {"nope", "rope", "season"} <= set(names)
    (season,) = client.list_encodings("season", head_dim=4)
    assert [block.kind for block in season.generators[0].blocks][0] == "rotation"


def test_metadata_reaches_the_server():
    def script(path, message, context):
        return attention_pb2.AttendResponse().SerializeToString()

    q = random(2, 2)
    with Scripted(script) as server:
        with attnd.Client(server.target, metadata={"x-attnd-tenant": "a"}) as client:
            client.attend(q, q, q, metadata={"authorization": "Bearer b"})
        seen = server.calls[0][2]
        assert (seen["x-attnd-tenant"], seen["authorization"]) == ("a", "Bearer b")


def test_a_closed_client_says_so(server):
    client = attnd.Client(server.target)
    with client:
        client.health()
    with pytest.raises(RuntimeError, match="closed"):
        client.health()


def test_closing_ends_calls_under_way():
    entered, leave = threading.Event(), threading.Event()

    def script(path, message, context):
        entered.set()
        leave.wait(20)
        return b""

    seen = []

    def attend(client):
        try:
            client.attend(q, q, q)
        except attnd.AttndError as error:
            seen.append(error)

    q = random(2, 2)
    with Scripted(script) as server:
        client = attnd.Client(server.target)
        thread = threading.Thread(target=attend, args=(client,))
        thread.start()
        assert entered.wait(20)
        client.close()
        thread.join(20)
        leave.set()
    assert [type(error) for error in seen] == [attnd.Cancelled]


def test_methods_show_the_arguments_of_a_request():
    for method in (
        attnd.Client.attend,
        attnd.Client.estimate,
        attnd.AsyncClient.attend,
    ):
        names = list(inspect.signature(method).parameters)
        assert names == ["self", *inspect.signature(attnd.request).parameters]
        assert "key_valid" in method.__doc__
    assert asyncio.iscoroutinefunction(attnd.AsyncClient.send)


def test_channels_balance_check_health_and_ping_within_the_servers_policy():
    settings = attnd.Client("dns:///attnd:50051").settings
    config = settings.service_config()
    assert config["loadBalancingConfig"] == [{"round_robin": {}}]
    assert config["healthCheckConfig"] == {"serviceName": ""}
    assert (
        "healthCheckConfig"
        not in attnd.Client(health_checked=False).settings.service_config()
    )
    options = dict(settings.options())
    # The server closes connections that ping more often than every 10 seconds.
    assert options["grpc.keepalive_time_ms"] >= 10_000
    several = attnd.Client(["127.0.0.1:1", "127.0.0.2:2"]).settings
    assert several.target() == "ipv4:127.0.0.1:1,127.0.0.2:2"
