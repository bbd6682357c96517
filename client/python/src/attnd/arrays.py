"""NumPy-like arrays as tensors of the wire, without a copy where none is needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple, Union

import numpy as np
from numpy.typing import NDArray

from attnd.v1 import tensor_pb2

# Of any element type.
Array = NDArray[Any]

# Element sizes of the wire's types.
_WIRE_DTYPES: Dict[int, np.dtype[Any]] = {
    tensor_pb2.DTYPE_F32: np.dtype("<f4"),
    tensor_pb2.DTYPE_F16: np.dtype("<f2"),
    tensor_pb2.DTYPE_BF16: np.dtype("<u2"),
}

DTYPE_NAMES = {
    "float32": tensor_pb2.DTYPE_F32,
    "float16": tensor_pb2.DTYPE_F16,
    "bfloat16": tensor_pb2.DTYPE_BF16,
}


# What NumPy calls them, in either byte order.
_NUMPY_DTYPES = {
    np.dtype(order + kind): dtype
    for order in "<>"
    for kind, dtype in (("f4", tensor_pb2.DTYPE_F32), ("f2", tensor_pb2.DTYPE_F16))
}


@dataclass(frozen=True, eq=False)
class BFloat16:
    """bfloat16 numbers as NumPy can hold them: their bits in a uint16 array.

    Give one wherever a tensor is expected; answers in bfloat16 are of this type
    where the package ml_dtypes is not installed, and arrays of
    ml_dtypes.bfloat16 where it is.
    """

    bits: Array

    def __post_init__(self) -> None:
        if getattr(self.bits, "dtype", None) != np.uint16:
            raise TypeError("BFloat16: expected a uint16 array with the bits")

    @classmethod
    def from_float32(cls, values: Any) -> "BFloat16":
        """Rounds to nearest, ties to even; NaN stays NaN."""
        bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
        rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16
        return cls(np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16))

    def to_float32(self) -> Array:
        """The same numbers, exactly."""
        return (self.bits.astype(np.uint32) << 16).view(np.float32)

    def __getitem__(self, place: Any) -> "BFloat16":
        return BFloat16(self.bits[place])

    @property
    def shape(self) -> Tuple[int, ...]:
        return self.bits.shape

    @property
    def ndim(self) -> int:
        return self.bits.ndim


@dataclass(frozen=True, eq=False)
class Tensor:
    """An array ready for the wire: type, shape, and its bytes in order."""

    dtype: int
    shape: Tuple[int, ...]
    # C-contiguous, little-endian; float32, float16 or uint16 (bfloat16).
    data: Array

    def reshaped(self, shape: Tuple[int, ...]) -> "Tensor":
        return Tensor(self.dtype, shape, self.data.reshape(shape))


def tensor(values: Any, name: str) -> Tensor:
    """Checks the type of an array and brings it into row-major order.

    Takes float32, float16 and bfloat16 (of ml_dtypes, or BFloat16) in NumPy
    arrays or in anything that NumPy can view: pandas, Polars, Arrow, PyTorch on
    the CPU. Contiguous arrays are not copied. Other types raise TypeError: a
    conversion that loses digits or doubles the memory is the caller's choice.
    """
    if isinstance(values, BFloat16):
        return _tensor(tensor_pb2.DTYPE_BF16, values.bits)
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name}: a masked array; use key_valid or value_observed")
    array = np.asarray(values)
    dtype = _NUMPY_DTYPES.get(array.dtype)
    if dtype is None and array.dtype.name == "bfloat16":
        return _tensor(tensor_pb2.DTYPE_BF16, array.view(np.uint16))
    if dtype is None:
        raise TypeError(
            f"{name}: elements of type {array.dtype}, expected float32, float16 or "
            "bfloat16; convert on purpose, for example with .astype(np.float32)"
        )
    return _tensor(dtype, array)


def _tensor(dtype: int, array: Array) -> Tensor:
    data = np.ascontiguousarray(array, dtype=_WIRE_DTYPES[dtype])
    # ascontiguousarray makes scalars one-dimensional.
    return Tensor(dtype, array.shape, data.reshape(array.shape))


def array(dtype: int, shape: Tuple[int, ...], data: memoryview) -> Any:
    """The array of a tensor that came over the wire, in memory of its own.

    Aligned and writable, which a view into the message would not be.
    """
    wire = _WIRE_DTYPES.get(dtype)
    if wire is None:
        raise ValueError(f"answer: element type {dtype} is not known to this client")
    values = owned(data, wire, shape)
    if dtype != tensor_pb2.DTYPE_BF16:
        return values
    bfloat16 = _ml_bfloat16()
    return BFloat16(values) if bfloat16 is None else values.view(bfloat16)


def owned(data: Union[bytes, memoryview], dtype: Any, shape: Tuple[int, ...]) -> Any:
    """An array of that type and shape with a copy of the bytes."""
    values = np.empty(shape, dtype)
    if values.nbytes != len(data):
        raise ValueError(
            f"answer: {len(data)} bytes for {values.dtype} of shape {shape}"
        )
    if values.size:
        # As bytes: in a message numbers stand at odd places, which NumPy copies
        # one by one.
        values.reshape(-1).view(np.uint8)[:] = np.frombuffer(data, np.uint8)
    return values


def _ml_bfloat16() -> Optional[Any]:
    try:
        import ml_dtypes
    except ImportError:
        return None
    return ml_dtypes.bfloat16


def flags(values: Any, name: str) -> Array:
    """Booleans (or 0 and 1 bytes) as contiguous bytes 0 and 1."""
    array = np.asarray(values)
    if array.dtype != np.bool_ and array.dtype != np.uint8:
        raise TypeError(f"{name}: elements of type {array.dtype}, expected bool")
    return np.ascontiguousarray(array != 0).view(np.uint8)
