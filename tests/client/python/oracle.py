"""Attention in double precision, written a second time and without haste."""

import numpy as np


def attention(q, k, v, logit_of_pair=None, visible=None, scale=None):
    """Output and lse of [L, D] arrays.

    logit_of_pair   added to scale * q.k, [Lq, Lk]
    visible         [Lq, Lk] bool
    """
    q, k, v = (np.asarray(a, dtype=np.float64) for a in (q, k, v))
    scale = 1 / np.sqrt(q.shape[-1]) if scale is None else scale
    scores = scale * q @ k.T
    if logit_of_pair is not None:
        scores = scores + logit_of_pair
    if visible is not None:
        scores = np.where(visible, scores, -np.inf)
    top = scores.max(axis=1, keepdims=True, initial=-np.inf)
    safe = np.where(np.isfinite(top), top, 0)
    weights = np.exp(scores - safe)
    total = weights.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + safe)[:, 0]
    output = np.divide(
        weights @ v, total, out=np.zeros((len(q), v.shape[1])), where=total > 0
    )
    return output, lse
