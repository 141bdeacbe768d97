"""Minimal nftables client: replaces whole tables of IPv4 rules in the kernel, without the `nft` program.

A `Table` of chains is built as values and installed in one atomic transaction. A rule is a list of
expressions, which the functions below encode; a packet leaves a rule at the first one that does not match. Loaded
values are in registers: `VALUE` holds one of up to 16 bytes, `concatenated` fills several of 4 bytes.
"""

import contextlib
import errno
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from volcano.nodes.shim.isolation.netlink import attribute, attributes, messages, nest, text

_NETLINK_NETFILTER = 12
_SUBSYSTEM = 10
_BATCH_BEGIN, _BATCH_END = 16, 17
_NEW_TABLE, _GET_TABLE, _DELETE_TABLE, _NEW_CHAIN, _NEW_RULE, _NEW_SET, _NEW_ELEMENTS = 0, 1, 2, 3, 6, 9, 12
_REQUEST, _ACKNOWLEDGE, _DUMP, _CREATE, _APPEND = 1, 4, 0x300, 0x400, 0x800
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_IPV4 = 2
_TABLE_OWNED = 2
_MAP = 8
_LIST_ELEMENT = 1
_OUTCOME_TYPE = 0xFFFFFF00
_ELEMENTS_PER_MESSAGE = 500  # an attribute is shorter than 64 KiB
_SO_SNDBUFFORCE, _SEND_BUFFER = 32, 8 << 20

OUTCOME, VALUE = 0, 1  # registers
WORDS = 8  # first of the registers of 4 bytes

_HEADER = struct.Struct("=IHHII")
_FAMILY = struct.Struct(">BBH")

Expression = tuple[str, bytes]


class Outcome(IntEnum):
    DROP = 0
    ACCEPT = 1
    JUMP = -3
    GOTO = -4
    RETURN = -5


class Hook(IntEnum):
    PREROUTING = 0
    INPUT = 1
    FORWARD = 2
    OUTPUT = 3
    POSTROUTING = 4


@dataclass(frozen=True, slots=True)
class BaseChain:
    """Where packets enter a chain; packets that reach its end are accepted."""

    kind: str  # filter or nat
    hook: Hook
    priority: int


class Type(IntEnum):
    """Types of values, by which `nft list ruleset` prints them. Each fills one register of 4 bytes."""

    INTEGER = 4
    ADDRESS = 7
    PROTOCOL = 12
    PORT = 13


@dataclass(slots=True)
class Set:
    """A set of keys, or with `data` a map from keys to concatenated values or, without `data_types`, outcomes."""

    name: str
    key_types: Sequence[Type]
    elements: Sequence[bytes] = ()
    data: Sequence[bytes] = ()  # of the elements of a map, in order; encoded by `value` or `outcome_value`
    data_types: Sequence[Type] = ()


@dataclass(slots=True)
class Chain:
    """A chain of rules; without `base` it is entered by jumps only."""

    name: str
    base: BaseChain | None = None
    rules: list[Sequence[Expression]] = field(default_factory=list)


@dataclass(slots=True)
class Table:
    name: str
    sets: list[Set] = field(default_factory=list)
    chains: list[Chain] = field(default_factory=list)
    owned: bool = False  # removed by the kernel when the socket that created it is closed


class NftSocket:
    """A netfilter socket of the network namespace in which it is opened."""

    def __init__(self) -> None:
        self._socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_NETFILTER
        )
        self._socket.bind((0, 0))
        with contextlib.suppress(OSError):  # only root may exceed the limit
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _SEND_BUFFER)
        self._installed: set[str] = set()

    def close(self) -> None:
        self._socket.close()

    def install(self, *tables: Table) -> None:
        """Replaces tables in one transaction; raises OSError and changes nothing when one is rejected."""
        requests: list[bytes] = []
        for table in tables:
            if table.name in self._installed:
                requests.append(_request(_DELETE_TABLE, text(1, table.name)))
            requests += _encode_table(table)
        self._send(requests)
        self._installed |= {table.name for table in tables}

    def tables(self) -> list[str]:
        """Returns the names of the namespace's IPv4 tables."""
        self._socket.send(_request(_GET_TABLE, b"", _DUMP))
        names: list[str] = []
        while True:
            for kind, body in messages(self._socket.recv(1 << 16)):
                if kind in (_NLMSG_ERROR, _NLMSG_DONE):
                    return names
                names.append(attributes(body[_FAMILY.size :])[1].rstrip(b"\0").decode())

    def _send(self, requests: Sequence[bytes]) -> None:
        bodies = [_message(_BATCH_BEGIN, 0, _FAMILY.pack(0, 0, _SUBSYSTEM)), *requests[:-1]]
        # The kernel reports every error, and success for messages that ask for it.
        last = bytearray(requests[-1])
        last[6] |= _ACKNOWLEDGE
        bodies += [bytes(last), _message(_BATCH_END, 0, _FAMILY.pack(0, 0, _SUBSYSTEM))]
        self._socket.send(b"".join(bodies))
        error = next((code for code in self._replies() if code), 0)
        if error:
            raise OSError(error, os.strerror(error))

    def _replies(self) -> Iterator[int]:
        """Error codes of the replies; the kernel has queued all of them when `send` returns."""
        while True:
            try:
                received = self._socket.recv(1 << 16, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:  # more errors than the buffer holds
                    raise
                yield errno.ENOBUFS
                return
            for kind, body in messages(received):
                if kind == _NLMSG_ERROR:
                    yield -int(struct.unpack_from("=i", body)[0])


# Expressions


def load_meta(key: int) -> Expression:
    return "meta", _number(1, VALUE) + _number(2, key)


def load_conntrack_state() -> Expression:
    return "ct", _number(1, VALUE) + _number(2, 0)


def load_source(register: int = VALUE) -> Expression:
    return _load_network(register, 12, 4)


def load_destination(register: int = VALUE) -> Expression:
    return _load_network(register, 16, 4)


def load_protocol(register: int = VALUE) -> Expression:
    return "meta", _number(1, register) + _number(2, 16)


def load_destination_port(register: int = VALUE) -> Expression:
    return _payload(register, 2, 2, 2)


def _load_network(register: int, offset: int, length: int) -> Expression:
    return _payload(register, 1, offset, length)


def _payload(register: int, base: int, offset: int, length: int) -> Expression:
    return "payload", _number(1, register) + _number(2, base) + _number(3, offset) + _number(4, length)


def equals(raw: bytes, *, inverted: bool = False, register: int = VALUE) -> Expression:
    return "cmp", _number(1, register) + _number(2, int(inverted)) + nest(3, value(raw))


def in_range(low: bytes, high: bytes) -> Expression:
    return "range", _number(1, VALUE) + _number(2, 0) + nest(3, value(low)) + nest(4, value(high))


def masked(mask: bytes) -> Expression:
    """Applies a mask to the loaded value."""
    fields = _number(1, VALUE) + _number(2, VALUE) + _number(3, len(mask))
    return "bitwise", fields + nest(4, value(mask)) + nest(5, value(bytes(len(mask))))


def contained(name: str, register: int = VALUE) -> Expression:
    return "lookup", text(1, name) + _number(2, register)


def mapped(name: str, register: int, result: int) -> Expression:
    """Looks the loaded value up in a map; with `OUTCOME` as the result the packet goes there."""
    return "lookup", text(1, name) + _number(2, register) + _number(3, result)


def random_number(modulus: int) -> Expression:
    return "numgen", _number(1, VALUE) + _number(2, modulus) + _number(3, 1)


def hashed_source(modulus: int) -> Expression:
    """Replaces the loaded source address by its hash."""
    return "hash", b"".join(
        (
            _number(1, VALUE),
            _number(2, VALUE),
            _number(3, 4),
            _number(4, modulus),
            _number(5, 1),
            _number(7, 0),
        )
    )


def outcome(code: Outcome, chain: str = "") -> Expression:
    return "immediate", _number(1, OUTCOME) + nest(2, outcome_value(code, chain))


def load_value(raw: bytes, register: int = VALUE) -> Expression:
    return "immediate", _number(1, register) + nest(2, value(raw))


def destination_nat(address: int, port: int) -> Expression:
    """Changes the destination to what the registers hold."""
    return "nat", _number(1, 1) + _number(2, _IPV4) + _number(3, address) + _number(5, port)


def source_nat(address: int) -> Expression:
    return "nat", _number(1, 0) + _number(2, _IPV4) + _number(3, address)


def masquerade() -> Expression:
    return "masq", b""


def reject(code: int) -> Expression:
    """Answers with ICMP's destination unreachable."""
    return "reject", _number(1, 0) + attribute(2, bytes((code,)))


# Values


def value(raw: bytes) -> bytes:
    return attribute(1, raw)


def outcome_value(code: Outcome, chain: str = "") -> bytes:
    return nest(2, _number(1, code & 0xFFFFFFFF) + (text(2, chain) if chain else b""))


def concatenated(*parts: bytes) -> bytes:
    """A key of several values, each padded to whole registers."""
    return b"".join(part + bytes(-len(part) % 4) for part in parts)


# Messages


def _encode_table(table: Table) -> Iterator[bytes]:
    owned = _number(2, _TABLE_OWNED) if table.owned else b""
    yield _request(_NEW_TABLE, text(1, table.name) + owned, _CREATE)
    for chain in table.chains:
        yield _request(_NEW_CHAIN, text(1, table.name) + _encode_chain(chain), _CREATE)
    for number, each in enumerate(table.sets, 1):
        yield from _encode_set(table.name, each, number)
    for chain in table.chains:
        for rule in chain.rules:
            expressions = b"".join(nest(_LIST_ELEMENT, text(1, name) + nest(2, data)) for name, data in rule)
            body = text(1, table.name) + text(2, chain.name) + nest(4, expressions)
            yield _request(_NEW_RULE, body, _CREATE | _APPEND)


def _encode_chain(chain: Chain) -> bytes:
    body = text(3, chain.name)
    if chain.base is not None:
        hook = _number(1, chain.base.hook) + _number(2, chain.base.priority & 0xFFFFFFFF)
        body += nest(4, hook) + _number(5, Outcome.ACCEPT) + text(7, chain.base.kind)
    return body


def _encode_set(table: str, each: Set, number: int) -> Iterator[bytes]:
    is_map = bool(each.data)
    body = text(1, table) + text(2, each.name) + _number(3, _MAP if is_map else 0)
    body += _number(4, _combined(each.key_types)) + _number(5, 4 * len(each.key_types))
    if is_map and each.data_types:
        body += _number(6, _combined(each.data_types)) + _number(7, 4 * len(each.data_types))
    elif is_map:
        body += _number(6, _OUTCOME_TYPE)
    yield _request(_NEW_SET, body + _number(10, number), _CREATE)
    data: Sequence[bytes] = each.data if is_map else [b""] * len(each.elements)
    for first in range(0, len(each.elements), _ELEMENTS_PER_MESSAGE):
        last = first + _ELEMENTS_PER_MESSAGE
        elements = b"".join(
            nest(_LIST_ELEMENT, nest(1, value(key)) + (nest(2, result) if is_map else b""))
            for key, result in zip(each.elements[first:last], data[first:last], strict=True)
        )
        yield _request(_NEW_ELEMENTS, text(1, table) + text(2, each.name) + nest(3, elements), _CREATE)


def _combined(types: Sequence[Type]) -> int:
    combined = 0
    for each in types:
        combined = combined << 6 | each
    return combined


def _request(kind: int, body: bytes, flags: int = 0) -> bytes:
    return _message(_SUBSYSTEM << 8 | kind, flags, _FAMILY.pack(_IPV4, 0, 0) + body)


def _message(kind: int, flags: int, body: bytes) -> bytes:
    return _HEADER.pack(_HEADER.size + len(body), kind, _REQUEST | flags, 0, 0) + body


def _number(kind: int, number: int) -> bytes:
    return attribute(kind, struct.pack(">I", number))
