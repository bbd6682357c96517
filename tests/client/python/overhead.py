"""What packing and unpacking cost, beside copying the same bytes once.

    PYTHONPATH=build/release/python /usr/bin/python3 tests/client/python/overhead.py

Float32 query, key, value and output of 1 MiB each: 3 MiB packed, 1 MiB unpacked.
The floor copies those 4 MiB from arrays to bytes and from bytes to an array, which
is what any client has to do. Rounds of the three are interleaved.
"""

import statistics
import time

import numpy as np

import attnd
from attnd.result import attention
from attnd.v1 import attention_pb2, tensor_pb2


def seconds_of_rounds(rounds):
    """Of each round the seconds of floor, packing and unpacking."""
    rng = np.random.default_rng(0)
    tensor = rng.standard_normal((1, 8, 512, 64)).astype(np.float32)
    stamps = np.arange(512)
    answer = attention_pb2.AttendResponse()
    answer.output.dtype = tensor_pb2.DTYPE_F32
    answer.output.shape.extend(tensor.shape)
    answer.output.data = tensor.tobytes()
    message = answer.SerializeToString()

    def floor():
        b"".join([tensor, tensor, tensor])
        return np.frombuffer(message[-tensor.nbytes :], "<f4")

    def pack():
        made = attnd.request(
            tensor,
            tensor,
            tensor,
            query_time=stamps,
            key_time=stamps,
            time_unit="s",
            encoding="rope",
            causal=True,
        )
        return made.to_bytes()

    def unpack():
        return attention(message).output

    return [[_timed(work) for work in (floor, pack, unpack)] for _ in range(rounds)]


def _timed(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def main():
    floor, pack, unpack = map(statistics.median, zip(*seconds_of_rounds(400)))
    print(f"floor  {floor * 1e6:7.0f} us (4 MiB)")
    print(f"pack   {pack * 1e6:7.0f} us (3 MiB)")
    print(f"unpack {unpack * 1e6:7.0f} us (1 MiB)")
    print(f"pack + unpack: {(pack + unpack) / floor:.2f} x the floor")


if __name__ == "__main__":
    main()
