"""Messages of the wire as pieces of bytes.

Tensors make up nearly all of a message. Protocol Buffers would copy them into a
message object and from there into bytes; here the small fields are serialized as
usual and the big ones are put beside them, so that each byte is copied once when
the pieces are joined. Concatenated encodings of a message are one message.
"""

from __future__ import annotations

from typing import Iterator, List, NamedTuple, Tuple, Union

import numpy as np

Piece = Union[bytes, np.ndarray]

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
    return b"".join(pieces)  # type: ignore[arg-type]


def size(pieces: List[Piece]) -> int:
    return sum(
        len(piece) if isinstance(piece, bytes) else piece.nbytes for piece in pieces
    )


def nested(field: int, pieces: List[Piece]) -> List[Piece]:
    """The pieces of a submessage, as a field of its parent."""
    return [field_head(field, size(pieces)), *pieces]


def nested_data(
    field: int, header: bytes, data_field: int, data: np.ndarray
) -> List[Piece]:
    """A submessage (Tensor, TimeAxis) whose data was left out of `header`."""
    body = header + field_head(data_field, data.nbytes)
    head = field_head(field, len(body) + data.nbytes) + body
    # Arrays without elements have no buffer that could be joined.
    return [head, data] if data.size else [head]


class Field(NamedTuple):
    number: int
    # The value as it stands; of varints too.
    value: memoryview
    # Tag, length and value.
    whole: memoryview


def fields(message: memoryview) -> Iterator[Field]:
    """The fields of an encoded message, in order, none of them copied."""
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
        yield Field(tag >> 3, message[place:end], message[begin:end])
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
