"""How large an Arrow file is when it is unpacked, from its headers alone.

Each message of a file has a header (a flatbuffer) and a body of buffers. A buffer of a packed batch
begins with the number of its bytes when unpacked, which Arrow would allocate at once.
https://arrow.apache.org/docs/format/Columnar.html#recordbatch-message
"""

import struct
from collections.abc import Iterator
from typing import Any

DICTIONARY, RECORD_BATCH = 2, 3  # types of messages
MOST_MESSAGES = 10**6


def batch_sizes(ipc: Any, file: Any, start: int) -> tuple[int, int]:
    """Rows of all record batches, and bytes of all buffers, of the messages that begin at `start`."""
    file.seek(start)
    rows = size = 0
    reader = ipc.MessageReader.open_stream(file)
    for _ in range(MOST_MESSAGES):
        try:
            message = reader.read_next_message()
        except StopIteration:
            return rows, size
        if message.type in ("record batch", "dictionary"):
            length, unpacked = message_size(
                memoryview(message.metadata), memoryview(message.body or b"")
            )
            rows += length if message.type == "record batch" else 0
            size += unpacked
    raise ValueError(f"the file has more than {MOST_MESSAGES:,} batches. Save it with fewer.")


def message_size(header: memoryview, body: memoryview) -> tuple[int, int]:
    """Rows and unpacked bytes of one batch."""
    try:
        message = number(header, "<I", 0)
        batch = follow(header, field(header, message, 2))
        if header[field(header, message, 1)] == DICTIONARY:
            batch = follow(header, field(header, batch, 1))
        length = number(header, "<q", field(header, batch, 0)) if field(header, batch, 0) else 0
        size = body.nbytes
        if field(header, batch, 3):  # packed
            size = sum(unpacked(header, field(header, batch, 2), body))
    except (struct.error, IndexError) as error:
        raise OSError("the header of a batch is damaged") from error
    return length, size


def unpacked(header: memoryview, place: int, body: memoryview) -> Iterator[int]:
    vector = follow(header, place)
    for index in range(number(header, "<I", vector)):
        offset, length = struct.unpack_from("<qq", header, vector + 4 + 16 * index)
        if length >= 8:
            size = number(body, "<q", offset)
            yield length if size < 0 else size


def number(data: memoryview, form: str, place: int) -> int:
    return struct.unpack_from(form, data, place)[0]


def follow(header: memoryview, place: int) -> int:
    """Where an offset leads to."""
    return place + number(header, "<I", place)


def field(header: memoryview, table: int, index: int) -> int:
    """The place of a table's field, or 0 if the table does not have it."""
    entries = table - number(header, "<i", table)
    inside = 4 + 2 * index < number(header, "<H", entries)
    offset = number(header, "<H", entries + 4 + 2 * index) if inside else 0
    return table + offset if offset else 0
