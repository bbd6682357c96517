"""Attention in double precision, written a second time and without haste."""

import numpy as np


def logits(q, k, scale=None, softcap=None, bias=None, visible=None):
    """Scores [Lq, Lk] of [L, D] arrays; -inf where hidden."""
    q, k = (np.asarray(a, dtype=np.float64) for a in (q, k))
    scores = (1 / np.sqrt(q.shape[-1]) if scale is None else scale) * q @ k.T
    if softcap is not None:
        scores = softcap * np.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    return scores if visible is None else np.where(visible, scores, -np.inf)


def softmax(scores, sink=-np.inf):
    """Weights and lse of rows of scores; `sink` is a logit without a value."""
    top = np.maximum(scores.max(axis=1, initial=-np.inf), sink)
    safe = np.where(np.isfinite(top), top, 0)[:, None]
    weights = np.exp(scores - safe)
    total = weights.sum(axis=1, keepdims=True) + np.exp(sink - safe)
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + safe)[:, 0]
    return np.divide(weights, total, out=np.zeros_like(weights), where=total > 0), lse


def attention(q, k, v, bias=None, visible=None, scale=None):
    """Output and lse of [L, D] arrays."""
    weights, lse = softmax(logits(q, k, scale, bias=bias, visible=visible))
    return weights @ np.asarray(v, dtype=np.float64), lse


def ranks(times):
    """Place of each row in the order of time, then of the rows."""
    order = np.argsort(times, kind="stable")
    out = np.empty(len(times), int)
    out[order] = np.arange(len(times))
    return out


def linear(q, k, v, weight_of_pair):
    """sum over keys of q.k * weight * v, [Lq, Dv], and sum of the weights' sizes."""
    q, k, v = (np.asarray(a, dtype=np.float64) for a in (q, k, v))
    return (weight_of_pair * (q @ k.T)) @ v, (
        abs(weight_of_pair) * (abs(q) @ abs(k).T)
    ) @ abs(v)
