"""DNS messages (RFC 1035, EDNS0): parses questions and encodes answers."""

import socket
import struct
from dataclasses import dataclass
from enum import IntEnum

from volcano.nodes.kubelet.dns.records import DnsAnswer, DnsRecord, RecordType

HEADER = struct.Struct("!6H")
DEFAULT_UDP_SIZE = 512  # bytes of a UDP answer to a client without EDNS0
MAX_UDP_SIZE = 1232  # is not fragmented on any link
MAX_TCP_SIZE = 65535
INTERNET = 1
ANY_CLASS = 255
# Answers must not be cached: a pod's address can appear or change at any time.
TTL = 0

_RESPONSE, _AUTHORITATIVE, _TRUNCATED, _RECURSION_WANTED, _RECURSION = 0x8000, 0x0400, 0x0200, 0x0100, 0x0080
_OPCODE = 0x7800
_POINTER = 0xC0
_QUESTION_AT = b"\xc0\x0c"  # compression pointer to the question's name


class ResponseCode(IntEnum):
    """Response codes (RFC 1035)."""

    NOERROR = 0
    SERVFAIL = 2
    NXDOMAIN = 3
    NOTIMP = 4
    REFUSED = 5


class MalformedMessage(Exception):
    """The bytes are no DNS question; they are not answered."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question. `limit` is the largest UDP answer the client accepts."""

    id: int
    name: str
    type: int
    kind: int  # the class: 1 is the Internet
    flags: int
    raw: bytes  # the encoded question, repeated in the answer
    extended: bool = False
    version: int = 0  # of EDNS
    limit: int = DEFAULT_UDP_SIZE

    @property
    def operation(self) -> int:
        return (self.flags & _OPCODE) >> 11


def read(message: bytes) -> Question:
    """Parses a message. Raises MalformedMessage."""
    if len(message) < HEADER.size:
        raise MalformedMessage("shorter than a header")
    identity, flags, questions, answers, authorities, additional = HEADER.unpack_from(message)
    if flags & _RESPONSE or questions != 1:
        raise MalformedMessage("not one question")
    name, at = _name(message, HEADER.size)
    if at + 4 > len(message):
        raise MalformedMessage("cut off in its question")
    kind, asked_class = struct.unpack_from("!2H", message, at)
    raw = message[HEADER.size : at + 4]
    question = Question(identity, name, kind, asked_class, flags, raw)
    return _extended(question, message, at + 4, answers + authorities + additional)


def _extended(question: Question, message: bytes, at: int, records: int) -> Question:
    """The question with the values of its EDNS record, if it has one."""
    for _ in range(records):
        at = _skip_name(message, at)
        if at + 10 > len(message):
            raise MalformedMessage("cut off in a record")
        kind, size, ttl, length = struct.unpack_from("!HHIH", message, at)
        at += 10 + length
        if at > len(message):
            raise MalformedMessage("cut off in a record")
        if kind == RecordType.OPT:
            limit = min(max(size, DEFAULT_UDP_SIZE), MAX_UDP_SIZE)
            return Question(
                question.id, question.name, question.type, question.kind, question.flags, question.raw,
                extended=True, version=ttl >> 16 & 0xFF, limit=limit,
            )  # fmt: skip
    return question


def _name(message: bytes, at: int) -> tuple[str, int]:
    """A name without compression (a question has nothing to point to), and its end."""
    labels: list[str] = []
    total = 0
    while True:
        if at >= len(message):
            raise MalformedMessage("cut off in a name")
        length = message[at]
        at += 1
        if length == 0:
            return ".".join(labels), at
        total += length + 1
        if length & _POINTER or total > 254 or at + length > len(message):
            raise MalformedMessage("no name")
        labels.append(message[at : at + length].decode("latin-1"))
        at += length


def _skip_name(message: bytes, at: int) -> int:
    while at < len(message):
        length = message[at]
        if length & _POINTER == _POINTER:
            return at + 2
        if length & _POINTER:
            raise MalformedMessage("no name")
        at += length + 1
        if length == 0:
            return at
    raise MalformedMessage("cut off in a name")


def write(
    question: Question, answer: DnsAnswer, domain: str, limit: int, code: ResponseCode | None = None
) -> bytes:
    """Encodes the answer; one longer than `limit` is truncated to the question and marked as such."""
    outcome = code if code is not None else ResponseCode.NOERROR if answer.exists else ResponseCode.NXDOMAIN
    records = [_record(question, record) for record in answer.records]
    extra = [_record(question, record) for record in answer.additional]
    mine = answer.authoritative and code is None
    authority = [_authority(domain)] if mine and not records else []
    tail = [_options(question)] if question.extended else []
    whole = _assembled(question, outcome, mine, records, authority, [*extra, *tail])
    if len(whole) > limit and extra:
        whole = _assembled(question, outcome, mine, records, authority, tail)
    if len(whole) > limit:
        whole = _assembled(question, outcome, mine, [], [], tail, truncated=True)
    return whole


def _assembled(
    question: Question,
    code: ResponseCode,
    authoritative: bool,
    answers: list[bytes],
    authorities: list[bytes],
    additional: list[bytes],
    *,
    truncated: bool = False,
) -> bytes:
    # Resolvers skip an empty answer of a server that is neither authoritative nor recursive.
    flags = _RESPONSE | question.flags & (_OPCODE | _RECURSION_WANTED) | _RECURSION | code
    flags |= (_AUTHORITATIVE if authoritative else 0) | (_TRUNCATED if truncated else 0)
    header = HEADER.pack(question.id, flags, 1, len(answers), len(authorities), len(additional))
    return b"".join((header, question.raw, *answers, *authorities, *additional))


def _record(question: Question, record: DnsRecord) -> bytes:
    owner = _QUESTION_AT if record.name.lower() == question.name.lower() else encoded_name(record.name)
    match record.type:
        case RecordType.A:
            data = socket.inet_pton(socket.AF_INET, record.value)
        case RecordType.SRV:
            data = struct.pack("!3H", 0, 100, record.port) + encoded_name(record.value)
        case _:
            data = encoded_name(record.value)
    return owner + struct.pack("!HHIH", record.type, INTERNET, TTL, len(data)) + data


def _authority(domain: str) -> bytes:
    """The SOA record of a negative answer, which must not be cached."""
    times = struct.pack("!5I", 1, 7200, 1800, 86400, TTL)
    data = encoded_name(f"ns.dns.{domain}") + encoded_name(f"hostmaster.{domain}") + times
    return encoded_name(domain) + struct.pack("!HHIH", RecordType.SOA, INTERNET, TTL, len(data)) + data


def _options(question: Question) -> bytes:
    bad_version = 1 << 24 if question.version else 0  # the upper bits of response code 16, BADVERS
    return b"\0" + struct.pack("!HHIH", RecordType.OPT, MAX_UDP_SIZE, bad_version, 0)


def encoded_name(name: str) -> bytes:
    """Encodes a name; labels longer than 63 bytes, which Kubernetes has not, are cut."""
    labels = [label.encode("latin-1", "replace")[:63] for label in name.rstrip(".").split(".") if label]
    return b"".join(bytes((len(label),)) + label for label in labels) + b"\0"
