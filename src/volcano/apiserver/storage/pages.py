"""Reads the rows of a damaged SQLite file page by page, without its b-tree: every intact leaf page is used.

Follows the file format of SQLite (https://www.sqlite.org/fileformat2.html). Pages of the write-ahead log up to its last
commit replace those of the file, as when SQLite opens it.
"""

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PAGE_SIZE = 8192  # as the journal creates files; used when the header is damaged
_LEAF = 0x0D
_WAL_HEADER = struct.Struct(">8I")
_FRAME_HEADER = struct.Struct(">6I")
_WAL_MAGIC = 0x377F0682  # the lowest bit says whether checksums are of big-endian words

# Called with the number of pages read and their total.
Progress = Callable[[int, int], None]


class Damaged(Exception):
    """A cell or page that cannot be decoded."""


class Pages:
    """The pages of a database file as of the last commit."""

    def __init__(self, database: Path) -> None:
        self._file = database.read_bytes()
        self.size = _page_size(self._file)
        self._newer = _committed_frames(database.with_name(f"{database.name}-wal"), self.size)
        self.count = max((len(self._file) + self.size - 1) // self.size, *self._newer, 1)
        self._reserved = self._file[20] if len(self._file) > 20 and self._file[20] < self.size - 480 else 0

    def page(self, number: int) -> bytes:
        """A page by its number, which starts at 1. Raises Damaged beyond the end of the file."""
        found = self._newer.get(number)
        if found is None:
            found = self._file[(number - 1) * self.size : number * self.size]
        if number < 1 or len(found) < self.size:
            raise Damaged(f"page {number} is missing")
        return found

    def rows(self, progress: Progress | None = None) -> Iterator[tuple[int, tuple[Any, ...]] | Damaged]:
        """Rowid and values of every row of a table, in the order of the file; Damaged for each that cannot be read.

        Pages that SQLite has freed are left out as far as the list of them can be read.
        """
        free = self._free_pages()
        for number in range(1, self.count + 1):
            if progress is not None:
                progress(number, self.count)
            if number not in free:
                yield from self._rows_of(number)

    def _rows_of(self, number: int) -> Iterator[tuple[int, tuple[Any, ...]] | Damaged]:
        try:
            page = self.page(number)
        except Damaged as error:
            yield error
            return
        start = 100 if number == 1 else 0
        if page[start] != _LEAF:
            return
        for position in range(int.from_bytes(page[start + 3 : start + 5], "big")):
            pointer = start + 8 + 2 * position
            offset = int.from_bytes(page[pointer : pointer + 2], "big")
            try:
                yield self._cell(page, offset)
            except (Damaged, IndexError, UnicodeDecodeError, struct.error) as error:
                yield Damaged(f"page {number}, cell {position}: {error}")

    def _cell(self, page: bytes, offset: int) -> tuple[int, tuple[Any, ...]]:
        length, offset = _varint(page, offset)
        rowid, offset = _varint(page, offset)
        return _signed(rowid), _record(self._payload(page, offset, length))

    def _payload(self, page: bytes, offset: int, length: int) -> bytes:
        """The content of a cell, with that of its overflow pages."""
        usable = self.size - self._reserved
        local = length
        if length > usable - 35:
            least = (usable - 12) * 32 // 255 - 23
            local = least + (length - least) % (usable - 4)
            local = local if local <= usable - 35 else least
        if offset + local > usable:
            raise Damaged("the cell extends beyond its page")
        parts, missing = [page[offset : offset + local]], length - local
        following = int.from_bytes(page[offset + local : offset + local + 4], "big") if missing else 0
        visited: set[int] = set()
        while missing > 0:
            if following in visited:
                raise Damaged("overflow pages form a cycle")
            visited.add(following)
            overflow = self.page(following)
            parts.append(overflow[4 : 4 + min(missing, usable - 4)])
            missing -= len(parts[-1])
            following = int.from_bytes(overflow[:4], "big")
        return b"".join(parts)

    def _free_pages(self) -> set[int]:
        free: set[int] = set()
        try:
            trunk = int.from_bytes(self.page(1)[32:36], "big")
            while trunk and trunk not in free:
                page = self.page(trunk)
                free.add(trunk)
                count = min(int.from_bytes(page[4:8], "big"), self.size // 4 - 2)
                free.update(struct.unpack_from(f">{count}I", page, 8))
                trunk = int.from_bytes(page[:4], "big")
        except Damaged:
            pass  # the rest of the list cannot be read; rows of free pages are recognized by newer ones
        return free


def _page_size(file: bytes) -> int:
    size = int.from_bytes(file[16:18], "big")
    size = 65536 if size == 1 else size
    return size if 512 <= size <= 65536 and size & (size - 1) == 0 else PAGE_SIZE


def _committed_frames(log: Path, page_size: int) -> dict[int, bytes]:
    """The newest committed version of each page in a write-ahead log; empty without a log or with another page size."""
    try:
        content = log.read_bytes()
    except OSError:
        return {}
    if len(content) < _WAL_HEADER.size:
        return {}
    magic, _, size, _, salt1, salt2, *checksum = _WAL_HEADER.unpack_from(content)
    if magic & ~1 != _WAL_MAGIC or size != page_size:
        return {}
    order = ">" if magic & 1 else "<"
    sums = _checksum(order, content[:24], (0, 0))
    if sums != tuple(checksum):
        return {}
    committed: dict[int, bytes] = {}
    pending: dict[int, bytes] = {}
    for start in range(_WAL_HEADER.size, len(content), _FRAME_HEADER.size + size):
        page = content[start + _FRAME_HEADER.size : start + _FRAME_HEADER.size + size]
        if len(page) < size:
            break
        number, commits, frame1, frame2, *checksum = _FRAME_HEADER.unpack_from(content, start)
        sums = _checksum(order, page, _checksum(order, content[start : start + 8], sums))
        if (frame1, frame2) != (salt1, salt2) or sums != tuple(checksum):
            break  # left from before the last checkpoint, or damaged: SQLite ends here too
        pending[number] = page
        if commits:
            committed |= pending
            pending = {}
    return committed


def _checksum(order: str, data: bytes, sums: tuple[int, int]) -> tuple[int, int]:
    first, second = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for position in range(0, len(words), 2):
        first = (first + words[position] + second) & 0xFFFFFFFF
        second = (second + words[position + 1] + first) & 0xFFFFFFFF
    return first, second


def _varint(data: bytes, offset: int) -> tuple[int, int]:
    value = 0
    for position in range(8):
        byte = data[offset + position]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, offset + position + 1
    return value << 8 | data[offset + 8], offset + 9


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _record(payload: bytes) -> tuple[Any, ...]:
    end, offset = _varint(payload, 0)
    types: list[int] = []
    while offset < end:
        kind, offset = _varint(payload, offset)
        types.append(kind)
    values: list[Any] = []
    offset = end
    for kind in types:
        size = _size(kind)
        if offset + size > len(payload):
            raise Damaged("the record is longer than its cell")
        values.append(_value(kind, payload[offset : offset + size]))
        offset += size
    return tuple(values)


def _size(kind: int) -> int:
    if kind >= 12:
        return (kind - 12) // 2
    return (0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0)[kind]


def _value(kind: int, data: bytes) -> Any:
    if kind == 0:
        return None
    if kind in (8, 9):
        return kind - 8
    if kind == 7:
        return struct.unpack(">d", data)[0]
    if kind < 7:
        return int.from_bytes(data, "big", signed=True)
    if kind < 12:
        raise Damaged(f"the record has a value of the reserved type {kind}")
    return data.decode() if kind % 2 else data
