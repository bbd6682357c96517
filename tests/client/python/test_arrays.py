"""Arrays on the wire and back."""

import numpy as np
import pandas as pd
import pytest

import attnd
from attnd import arrays, wire
from attnd.result import attention
from attnd.v1 import attention_pb2, tensor_pb2

RNG = np.random.default_rng(9)


def parsed(**arguments):
    made = attnd.request(**arguments)
    assert made.nbytes == len(made.to_bytes())
    return attention_pb2.AttendRequest.FromString(made.to_bytes())


@pytest.mark.parametrize("dtype, wire_type", [("f4", "DTYPE_F32"), ("f2", "DTYPE_F16")])
def test_any_strides_and_order_arrive_in_row_major_order(dtype, wire_type):
    values = RNG.standard_normal((2, 3, 5, 4)).astype(dtype)
    cases = {
        "C": values,
        "Fortran": np.asfortranarray(values),
        "transposed": values.transpose(0, 1, 3, 2).copy().transpose(0, 1, 3, 2),
        "every second": np.repeat(values, 2, axis=2)[:, :, ::2],
        "backwards": values[:, :, ::-1].copy()[:, :, ::-1],
        "broadcast": np.broadcast_to(values[:1], (1, 3, 5, 4)),
        "big-endian": values.astype(values.dtype.newbyteorder(">")),
        "read-only": np.frombuffer(values.tobytes(), dtype).reshape(values.shape),
    }
    for name, case in cases.items():
        query = parsed(query=case, key=case, value=case).query
        assert query.dtype == getattr(tensor_pb2, wire_type)
        assert tuple(query.shape) == case.shape
        expected = np.ascontiguousarray(case).astype(f"<{dtype}")
        assert query.data == expected.tobytes(), name


def test_contiguous_arrays_are_not_copied_before_they_are_sent():
    values = RNG.standard_normal((1, 1, 4, 2)).astype(np.float32)
    pieces = attnd.request(values, values, values).pieces()
    borrowed = [piece for piece in pieces if isinstance(piece, np.ndarray)]
    assert len(borrowed) == 3
    assert all(np.shares_memory(piece, values) for piece in borrowed)


@pytest.mark.parametrize(
    "values",
    [
        np.zeros((2, 2)),
        np.zeros((2, 2), int),
        np.zeros((2, 2), bool),
        np.zeros((2, 2), np.uint16),
        np.zeros((2, 2), complex),
        [[0.0, 1.0], [2.0, 3.0]],
        pd.DataFrame({"a": ["x"]}),
    ],
)
def test_other_types_are_refused_not_converted(values):
    good = np.zeros((2, 2), np.float32)
    with pytest.raises(TypeError, match="^value: .*expected float32"):
        attnd.request(good, good, values)


def test_masked_arrays_are_refused():
    masked = np.ma.masked_array(np.zeros((2, 2), np.float32), mask=True)
    with pytest.raises(TypeError, match="^key: a masked array"):
        attnd.request(np.zeros((2, 2), np.float32), masked, masked)


def test_pandas_frames_of_float32_are_tensors():
    frame = pd.DataFrame(RNG.standard_normal((5, 2)), dtype=np.float32)
    query = parsed(query=frame, key=frame, value=frame).query
    assert list(query.shape) == [1, 1, 5, 2]
    assert query.data == frame.to_numpy().tobytes()


def test_bfloat16_by_its_bits():
    values = np.array([[1.0, -2.5, 3.1415927, np.inf]], np.float32)
    short = attnd.BFloat16.from_float32(values)
    np.testing.assert_array_equal(
        short.to_float32(), np.array([[1, -2.5, 3.140625, np.inf]], np.float32)
    )
    # Ties go to even; just above a tie goes up; NaN stays NaN.
    bits = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x7FFFFFFF], np.uint32)
    rounded = attnd.BFloat16.from_float32(bits.view(np.float32)).bits
    assert rounded.tolist() == [0x3F80, 0x3F82, 0x3F81, 0x7FC0]
    query = parsed(query=short, key=short, value=short).query
    assert query.dtype == tensor_pb2.DTYPE_BF16
    assert query.data == short.bits.tobytes()
    with pytest.raises(TypeError, match="uint16"):
        attnd.BFloat16(values)


def test_ml_dtypes_arrays_when_installed():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = RNG.standard_normal((3, 2)).astype(ml_dtypes.bfloat16)
    query = parsed(query=values, key=values, value=values).query
    assert query.dtype == tensor_pb2.DTYPE_BF16
    assert query.data == values.tobytes()
    back = arrays.array(query.dtype, (3, 2), memoryview(query.data))
    assert back.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(back, values)


def test_polars_and_arrow_when_installed():
    polars = pytest.importorskip("polars")
    pyarrow = pytest.importorskip("pyarrow")
    frame = polars.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}).cast(polars.Float32)
    query = parsed(query=frame, key=frame, value=frame).query
    assert np.frombuffer(query.data, "<f4").tolist() == [1, 3, 2, 4]
    stamps = np.array(["2024-03-10T06:59", "2024-03-10T07:01"], "datetime64[ns]")
    expected = stamps.view("i8").tolist()
    from attnd.times import times

    for unit in ("ms", "us", "ns"):
        column = polars.Series(stamps).cast(polars.Datetime(unit))
        zoned = column.dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo")
        arrow = pyarrow.array(stamps).cast(pyarrow.timestamp(unit, tz="Asia/Tokyo"))
        chunked = pyarrow.chunked_array([arrow[:1], arrow[1:]])
        series = pd.Series(arrow, dtype=pd.ArrowDtype(arrow.type))
        for values in (zoned, arrow, chunked, series):
            assert times(values, "t").in_unit("ns", "t").values.tolist() == expected
        naive = times(column, "t", naive="UTC").in_unit("ns", "t").values
        assert naive.tolist() == expected
        for values in (column, arrow.cast(pyarrow.timestamp(unit))):
            with pytest.raises(ValueError, match="without a zone"):
                times(values, "t")
        nulls = pyarrow.array([stamps[0], None]).cast(arrow.type)
        for values in (nulls, polars.from_arrow(nulls)):
            with pytest.raises(ValueError, match=r"t\[1\]: null \(1 of 2\)"):
                times(values, "t")


def test_the_message_is_that_of_the_schema():
    q = RNG.standard_normal((2, 4, 3, 8)).astype(np.float32)
    k = RNG.standard_normal((2, 2, 5, 8)).astype(np.float32)
    v = RNG.standard_normal((2, 2, 5, 6)).astype(np.float32)
    bias = RNG.standard_normal((1, 1, 3, 5)).astype(np.float32)
    message = parsed(
        query=q,
        key=k,
        value=v,
        query_time=np.arange(3),
        key_time=np.arange(5),
        time_unit="positions",
        encoding="rope",
        two_sided="absolute_lag",
        causal="index",
        strict=True,
        window=(3, 2),
        window_keys=(5, 6),
        prefix=1,
        query_lengths=[3, 2],
        key_lengths=np.array([5, 4], np.int32),
        key_valid=np.array([[1, 0, 1, 1, 1]] * 2, bool),
        key_ranges=[(0, 3), (4, 4)],
        sinks=[0.5, 1, 2, 3],
        bias=bias,
        scale=0.25,
        softcap=30.0,
        compute="bfloat16",
        prune_tolerance=1e-3,
        outputs=("output", "top_k"),
        output_dtype=np.float16,
        top_k=2,
        priority=-3,
        request_id="ä",
    )
    expected = attention_pb2.AttendRequest(
        request_id="ä",
        encoding="rope",
        two_sided="TWO_SIDED_RULE_ABSOLUTE_LAG",
        scale=0.25,
        softcap=30.0,
        compute="COMPUTE_PRECISION_BF16",
        prune_tolerance=1e-3,
        outputs=["OUTPUT_OUTPUT", "OUTPUT_TOP_K"],
        output_dtype="DTYPE_F16",
        top_k=2,
        priority=-3,
        mask=attention_pb2.Mask(
            causal="CAUSALITY_INDEX",
            strict=True,
            past_ticks=3,
            future_ticks=2,
            past_keys=5,
            future_keys=6,
            prefix=1,
            query_lengths=[3, 2],
            key_lengths=[5, 4],
            key_validity=bytes([1, 0, 1, 1, 1] * 2),
            key_ranges=[
                attention_pb2.TimeRange(begin_ticks=0, end_ticks=3),
                attention_pb2.TimeRange(begin_ticks=4, end_ticks=4),
            ],
            sinks=[0.5, 1, 2, 3],
        ),
    )
    for name, values in (("query", q), ("key", k), ("value", v), ("bias", bias)):
        tensor = getattr(expected, name)
        tensor.dtype = tensor_pb2.DTYPE_F32
        tensor.shape.extend(values.shape)
        tensor.data = values.tobytes()
        if name != "bias":
            tensor.layout = tensor_pb2.LAYOUT_BHLD
    for name, count in (("query_time", 3), ("key_time", 5)):
        axis = getattr(expected, name)
        axis.type = tensor_pb2.TIME_TYPE_INT64_TICKS
        axis.shape.append(count)
        axis.coordinates = 1
        axis.units.append(tensor_pb2.TICK_UNIT_POSITIONS)
        axis.data = np.arange(count, dtype="<i8").tobytes()
    assert message == expected


def test_answers_become_arrays_of_their_own():
    shape = (1, 2, 3, 4)
    output = RNG.standard_normal(shape).astype(np.float32)
    lse = RNG.standard_normal(shape[:3]).astype(np.float32)
    message = attention_pb2.AttendResponse(request_id="x" * 3)
    for name, values in (("output", output), ("lse", lse)):
        tensor = getattr(message, name)
        tensor.dtype = tensor_pb2.DTYPE_F32
        tensor.shape.extend(values.shape)
        tensor.data = values.tobytes()
    message.top_k.k = 1
    message.top_k.indices = np.arange(6, dtype="<i8").tobytes()
    message.top_k.weights.shape.extend((1, 2, 3, 1))
    message.top_k.weights.data = np.ones(6, "<f4").tobytes()
    message.stats.flops = 7
    read = attention(message.SerializeToString())
    np.testing.assert_array_equal(read.output, output)
    np.testing.assert_array_equal(read.lse, lse)
    assert read.output.flags.writeable and read.output.flags.aligned
    assert read.output.base is None
    assert read.top_k.indices.shape == (1, 2, 3, 1) and read.top_k.times is None
    assert read.scores is None and read.final_state is None
    assert (read.request_id, read.stats.flops) == ("xxx", 7)
    flat = attention_pb2.AttendResponse()
    flat.output.CopyFrom(message.output)
    flat.output.shape[:] = [1, 6, 1, 4]
    flat.output.layout = tensor_pb2.LAYOUT_BLHD
    assert attention(flat.SerializeToString(), flat=True).output.shape == (6, 4)


def test_a_cut_off_answer_is_an_error_not_a_short_array():
    message = attention_pb2.AttendResponse()
    message.output.dtype = tensor_pb2.DTYPE_F32
    message.output.shape.extend((1, 1, 4, 4))
    message.output.data = b"\0" * 64
    whole = message.SerializeToString()
    for length in range(1, len(whole)):
        with pytest.raises(ValueError, match="^answer: "):
            attention(whole[:length])


def test_fields_of_later_versions_are_passed_over():
    later = (
        wire.varint(1000 << 3)
        + wire.varint(300)
        + wire.field_head(1001, 2)
        + b"ab"
        + wire.varint(1002 << 3 | 1)
        + bytes(8)
        + wire.varint(1003 << 3 | 5)
        + bytes(4)
    )
    read = attention(
        later + attention_pb2.AttendResponse(request_id="a").SerializeToString()
    )
    assert read.request_id == "a"


def test_shapes_of_two_and_four_axes_do_not_mix():
    two, four = np.zeros((3, 2), np.float32), np.zeros((1, 1, 3, 2), np.float32)
    for q, k in ((two, four), (four, two), (np.zeros((1, 3, 2), np.float32), four)):
        with pytest.raises(ValueError, match="expected 4 axes"):
            attnd.request(q, k, four)


@pytest.mark.parametrize(
    "argument, value",
    [
        ("outputs", ["ouput"]),
        ("causal", "tme"),
        ("two_sided", "both"),
        ("compute", "float64"),
        ("output_dtype", "float64"),
        ("layout", "lbhd"),
    ],
)
def test_misspelt_words_are_refused_with_the_known_ones(argument, value):
    a = np.zeros((3, 2), np.float32)
    with pytest.raises(ValueError, match=f"^{argument}: .*expected one of"):
        attnd.request(a, a, a, **{argument: value})
