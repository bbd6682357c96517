"""Compares attnd's rotary encodings with those of transformers and torch.

    rope_parity.py ATTND ATTNCTL

Starts an attnd whose encodings are rope_parameters and rope_scaling blocks, word
for word as a model's config.json has them, and asks it for the frequencies, the
amplitude and the scores of each. transformers computes the same in float32: its
rope functions give frequencies and amplitude, its rotary embedding cosines and
sines, torch turns and multiplies. Prints a table; exit 1 when a figure passes its
bound.

Bounds: frequencies one part in 1e6 (float32 powers); scores, in shares of |q||k|
scale, 2e-6 and what an angle of float32 can be off by, 2^-22 of it. The last two
columns say how far each is from the formula in float64: with exact phases that is
attnd's own error, for transformers it grows with the position.
"""

import dataclasses
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import types

import numpy
import torch
import transformers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama import LlamaConfig
from transformers.models.llama.modeling_llama import (
    LlamaRotaryEmbedding,
    rotate_half,
)
from transformers.models.qwen2_vl import modeling_qwen2_vl
from transformers.models.qwen3_vl import modeling_qwen3_vl

FREQUENCY_BOUND = 1e-6
SCORE_BOUND = 2e-6
ANGLE_BOUND = 2.0**-22
HEADS = 2


@dataclasses.dataclass
class Case:
    name: str
    block: dict
    dim: int = 64
    length: int = 96  # positions 0, 1, ...
    offset: int = 0
    max_positions: int = 2048  # of the model
    key: str = "rope_parameters"

    def config(self):
        """The model configuration that transformers reads."""
        return LlamaConfig(
            hidden_size=HEADS * self.dim,
            num_attention_heads=HEADS,
            head_dim=self.dim,
            max_position_embeddings=self.max_positions,
            **{
                self.key: {
                    k: v
                    for k, v in self.block.items()
                    if k != "max_position_embeddings"
                }
            },
        )


def cases():
    theta = {"rope_theta": 500000.0}
    yarn = {
        "rope_type": "yarn",
        "rope_theta": 10000.0,
        "factor": 4.0,
        "original_max_position_embeddings": 4096,
    }
    longrope = {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "factor": 32.0,
        "original_max_position_embeddings": 64,
        "short_factor": [1 + j / 64 for j in range(32)],
        "long_factor": [1 + j / 2 for j in range(32)],
    }
    llama3 = {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    dynamic = {
        "rope_type": "dynamic",
        "rope_theta": 10000.0,
        "factor": 2.0,
    }
    far = {"offset": 100_000}
    yield Case("default", {"rope_type": "default", **theta})
    yield Case("default, far", {"rope_type": "default", **theta}, **far)
    yield Case("default, D 128", {"rope_type": "default", **theta}, dim=128)
    yield Case(
        "default, half of the channels",
        {"rope_type": "default", "partial_rotary_factor": 0.5, **theta},
    )
    yield Case("linear", {"rope_type": "linear", "factor": 4.0, **theta})
    yield Case("linear, far", {"rope_type": "linear", "factor": 4.0, **theta}, **far)
    yield Case(
        "linear, rope_scaling and type",
        {"type": "linear", "factor": 2.5, "rope_theta": 10000.0},
        key="rope_scaling",
    )
    for length, name in ((32, "short"), (96, "long")):
        yield Case(
            f"dynamic, {name}",
            {**dynamic, "max_position_embeddings": 48},
            length=length,
            max_positions=48,
        )
    yield Case("yarn", yarn)
    yield Case("yarn, far", yarn, **far)
    yield Case("yarn, D 128", yarn, dim=128)
    yield Case("yarn, truncate false", {**yarn, "truncate": False})
    yield Case(
        "yarn, borders and factor",
        {**yarn, "beta_fast": 16, "beta_slow": 2, "attention_factor": 1.25},
    )
    yield Case("yarn, mscale pair", {**yarn, "mscale": 1.0, "mscale_all_dim": 0.5})
    yield Case("yarn, mscale alone", {**yarn, "mscale": 0.7})
    for length, name in ((48, "short"), (96, "long")):
        yield Case(f"longrope, {name}", longrope, length=length)
    yield Case("longrope, attention_factor", {**longrope, "attention_factor": 1.1})
    yield Case("llama3", llama3)
    yield Case("llama3, far", llama3, **far)
    yield Case("llama3, factor 32", {**llama3, "factor": 32.0}, dim=128)
    yield Case(
        "proportional",
        {
            "rope_type": "proportional",
            "rope_theta": 1000000.0,
            "partial_rotary_factor": 0.25,
        },
    )
    yield Case(
        "proportional, factor",
        {
            "rope_type": "proportional",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.5,
            "factor": 8.0,
        },
        dim=128,
    )


class Server:
    """An attnd with two encodings of each case: N.exact and N.hf."""

    def __init__(self, attnd, attnctl, blocks, folder):
        self.attnctl, self.folder = attnctl, pathlib.Path(folder)
        encodings = [
            {
                "name": f"{number}.{name}",
                "time_unit": "position",
                "angle_precision": precision,
                "blocks": [{"rotary": {key: block}}],
            }
            for number, (key, block) in enumerate(blocks)
            for name, precision in (("exact", "exact"), ("hf", "hf_fp32"))
        ]
        config = self.folder / "attnd.yaml"
        config.write_text(
            json.dumps(
                {
                    "listeners": [{"address": "127.0.0.1:0"}],
                    "admin": {"address": "127.0.0.1:0"},
                    "encodings": encodings,
                }
            )
        )
        self.log = self.folder / "log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [attnd, "--config", config], stdout=subprocess.DEVNULL, stderr=log
            )
        self.wait()

    def wait(self):
        """The address, once the server serves."""
        for _ in range(3000):
            if self.process.poll() is not None:
                break
            found = re.search(r'"grpc": *"([^"]*)"', self.log.read_text())
            if found:
                self.target = found[1]
                if self.call("health", quiet=True):
                    return
            time.sleep(0.1)
        self.stop()
        sys.exit("attnd does not serve:\n" + self.log.read_text())

    def call(self, *arguments, quiet=False):
        done = subprocess.run(
            [self.attnctl, *arguments, "--target", self.target],
            capture_output=True,
            text=True,
        )
        if done.returncode != 0 and not quiet:
            sys.exit(" ".join(map(str, arguments)) + ":\n" + done.stderr)
        return done.stdout if done.returncode == 0 else ""

    def resolved(self, name, dim, length):
        """Frequency and amplitude of every plane (j, j + r/2), and r."""
        text = self.call(
            *("encodings", "show", name, "--dim", str(dim)),
            *("--length", str(length), "--json"),
        )
        planes = [
            (block["channels"][0], block)
            for block in json.loads(text)["generators"][0]["blocks"]
            if block["kind"] == "rotation"
        ]
        planes.sort(key=lambda plane: plane[0])
        return (
            numpy.array([block.get("frequency", 0.0) for _, block in planes]),
            planes[0][1].get("amplitude", 0.0),
            [block.get("coordinate", 0) for _, block in planes],
        )

    def scores(self, name, query, key, positions):
        for label, array in (("q", query), ("k", key), ("t", positions)):
            numpy.save(self.folder / f"{label}.npy", array)
        q, k, t = (str(self.folder / f"{label}.npy") for label in "qkt")
        self.call(
            *("attend", "--query", q, "--key", k, "--value", k),
            *("--query-time", t, "--key-time", t, "--unit", "positions"),
            *("--encoding", name, "--outputs", "scores", "--scale", "1"),
            *("--out", str(self.folder / "answer")),
        )
        return numpy.load(self.folder / "answer.scores.npy").astype(numpy.float64)

    def stop(self):
        self.process.terminate()
        self.process.wait()


def turned(x, cosine, sine):
    """apply_rotary_pos_emb on the channels that turn, as models do it."""
    r = cosine.shape[-1]
    turning, rest = x[..., :r], x[..., r:]
    return torch.cat((turning * cosine + rotate_half(turning) * sine, rest), dim=-1)


def theirs(case, query, key, positions):
    """Frequencies, amplitude and scores of transformers, all in float32."""
    config = case.config()
    kind = config.rope_parameters["rope_type"]
    if kind == "default":
        r = int(case.dim * case.block.get("partial_rotary_factor", 1.0))
        base = config.rope_parameters["rope_theta"]
        frequencies = 1.0 / (base ** (torch.arange(0, r, 2).float() / r))
        amplitude = 1.0
        emb = torch.cat(2 * [positions.float()[:, None] * frequencies], dim=-1)
        cosine, sine = emb.cos(), emb.sin()
    else:
        frequencies, amplitude = ROPE_INIT_FUNCTIONS[kind](
            config, torch.device("cpu"), seq_len=case.length
        )
        embedding = LlamaRotaryEmbedding(config)
        cosine, sine = embedding(query, positions[None])
        cosine, sine = cosine[0], sine[0]
    scores = turned(query, cosine, sine).double() @ turned(
        key, cosine, sine
    ).double().transpose(-1, -2)
    return frequencies.double().numpy(), float(amplitude), scores.numpy()


def formula(query, key, positions, frequencies, amplitude):
    """The same scores in float64, from phases of whole lags."""
    query, key = query.double().numpy(), key.double().numpy()
    planes = len(frequencies)
    x, y = query[..., :planes], query[..., planes : 2 * planes]
    u, v = key[..., :planes], key[..., planes : 2 * planes]
    lag = (positions[:, None] - positions[None, :])[..., None] * frequencies
    same = (
        x[..., :, None, :] * u[..., None, :, :]
        + y[..., :, None, :] * v[..., None, :, :]
    )
    across = (
        x[..., :, None, :] * v[..., None, :, :]
        - y[..., :, None, :] * u[..., None, :, :]
    )
    scores = (same * numpy.cos(lag) + across * numpy.sin(lag)).sum(-1) * amplitude**2
    rest = query[..., 2 * planes :] @ numpy.swapaxes(key[..., 2 * planes :], -1, -2)
    return scores + rest


def compare(server, number, case):
    generator = torch.Generator().manual_seed(number)
    shape = (1, HEADS, case.length, case.dim)
    query = torch.randn(shape, generator=generator)
    key = torch.randn(shape, generator=generator)
    positions = torch.arange(case.length) + case.offset

    frequencies, amplitude, expected = theirs(case, query, key, positions)
    w, squared, _ = server.resolved(f"{number}.exact", case.dim, case.length)
    live = frequencies != 0
    error_w = numpy.max(numpy.abs(w[live] / frequencies[live] - 1))
    same_zeros = bool(numpy.all(w[~live] == 0)) and len(w) == len(frequencies)
    error_a = abs(squared**0.5 - amplitude)

    arrays = query.numpy(), key.numpy(), positions.numpy()
    hf = server.scores(f"{number}.hf", *arrays)
    exact = server.scores(f"{number}.exact", *arrays)
    truth = formula(query, key, positions.numpy(), w, squared**0.5)
    size = (
        amplitude**2
        * (query.norm(dim=-1)[..., :, None] * key.norm(dim=-1)[..., None, :])
        .double()
        .numpy()
    )
    largest_angle = float(positions.max()) * float(numpy.max(w))
    shares = [
        float(numpy.max(numpy.abs(a - b) / size))
        for a, b in (
            (hf, expected),
            (exact, expected),
            (exact, truth),
            (expected, truth),
        )
    ]
    between = SCORE_BOUND + ANGLE_BOUND * largest_angle
    good = (
        error_w <= FREQUENCY_BOUND
        and same_zeros
        and error_a <= 1e-6
        and shares[0] <= between
        and shares[1] <= between
        and shares[2] <= SCORE_BOUND
    )
    figures = "".join(f"{x:10.1e}" for x in (error_w, error_a, *shares))
    print(f"{case.name:30}{figures}  {'' if good else 'TOO FAR'}")
    return good


# M-RoPE: sections, interleaved or not, and whose code deals the planes out.
SECTIONS = (
    ([16, 24, 24], False, modeling_qwen2_vl.Qwen2VLRotaryEmbedding),
    ([24, 20, 20], True, modeling_qwen3_vl.Qwen3VLTextRotaryEmbedding),
)


def mrope(section, interleaved):
    return {
        "rope_type": "default",
        "rope_theta": 1e6,
        "mrope_section": section,
        **({"mrope_interleaved": True} if interleaved else {}),
    }


def sections(server, number, section, interleaved, model):
    """Which plane follows which of t, h and w."""
    _, _, ours = server.resolved(f"{number}.exact", 128, 16)
    axes = torch.arange(3.0)[:, None, None, None].expand(3, 1, 1, 64).clone()
    dealt = model.recomposition_frequencies(
        types.SimpleNamespace(mrope_section=section), axes
    )
    theirs = [int(axis) for axis in dealt.reshape(-1)[:64]]
    good = ours == theirs
    name = "mrope, " + ("interleaved" if interleaved else "contiguous")
    print(f"{name:30}  {'the same axis for every plane' if good else 'TOO FAR'}")
    return good


def main():
    attnd, attnctl = sys.argv[1:]
    todo = list(cases())
    blocks = [(case.key, case.block) for case in todo]
    for section, interleaved, _ in SECTIONS:
        blocks.append(("rope_parameters", mrope(section, interleaved)))
    print(
        f"transformers {transformers.__version__}, torch {torch.__version__}\n\n"
        + " " * 30
        + "".join(
            f"{x:>10}"
            for x in (
                "frequency",
                "amplitude",
                "hf_fp32",
                "exact",
                "exact-f64",
                "HF-f64",
            )
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        server = Server(attnd, attnctl, blocks, folder)
        try:
            good = [compare(server, n, case) for n, case in enumerate(todo)]
            for number, (section, *rest) in enumerate(SECTIONS, len(todo)):
                good.append(sections(server, number, section, *rest))
        finally:
            server.stop()
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
