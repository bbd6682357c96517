"""Messages of the wire as pieces of bytes.

Tensors make up nearly all of a message. Protocol Buffers would copy them into a
message object and from there into bytes; here the small fields are serialized as
usual and the big ones are put beside them, so that each byte is copied once when
the pieces are joined. Concatenated encodings of a message are one message.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Iterator, List, Tuple, Union

from attnd.arrays import Array

Piece = Union[bytes, Array]

_LENGTH_DELIMITED = 2


def varint(number: int) -> bytes:
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field_head(field: int, length: int) -> bytes:
    """What stands before a length-delimited field."""
    return varint(field << 3 | _LENGTH_DELIMITED) + varint(length)


def joined(pieces: List[Piece]) -> bytes:
    """The message; the one copy of its arrays."""
    buffers: List[Any] = list(pieces)  # NumPy calls its arrays no buffers
    return b"".join(buffers)


def size(pieces: List[Piece]) -> int:
    return sum(
        len(piece) if isinstance(piece, bytes) else piece.nbytes for piece in pieces
    )


def nested(field: int, pieces: List[Piece]) -> List[Piece]:
    """The pieces of a submessage, as a field of its parent."""
    return [field_head(field, size(pieces)), *pieces]


@lru_cache(maxsize=1024)
def data_head(field: int, header: bytes, data_field: int, nbytes: int) -> bytes:
    """What stands before the data of a submessage (Tensor, TimeAxis) whose
    encoding without them is `header`."""
    body = header + field_head(data_field, nbytes)
    return field_head(field, len(body) + nbytes) + body


def fields(message: memoryview) -> Iterator[Tuple[int, memoryview, memoryview]]:
    """The fields of an encoded message, in order, none of them copied.

    Of each its number, its value as it stands (of varints too), and the whole of
    tag, length and value.
    """
    place = 0
    while place < len(message):
        begin = place
        tag, place = _read_varint(message, place)
        kind = tag & 7
        if kind == _LENGTH_DELIMITED:
            length, place = _read_varint(message, place)
            end = place + length
        elif kind == 0:
            end = _read_varint(message, place)[1]
        elif kind in (1, 5):
            end = place + (8 if kind == 1 else 4)
        else:
            raise ValueError(f"answer: wire type {kind}")
        if end > len(message):
            raise ValueError("answer: cut off")
        yield tag >> 3, message[place:end], message[begin:end]
        place = end


def _read_varint(message: memoryview, place: int) -> Tuple[int, int]:
    number = shift = 0
    while place < len(message):
        byte = message[place]
        place += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, place
        shift += 7
    raise ValueError("answer: cut off")
