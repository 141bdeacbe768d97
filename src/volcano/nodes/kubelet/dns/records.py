"""What a name stands for: the records of a DNS answer as values, before anybody has written them down."""

from dataclasses import dataclass
from enum import IntEnum


class RecordType(IntEnum):
    """The types of record that we answer or have to know."""

    A = 1
    NS = 2
    CNAME = 5
    SOA = 6
    PTR = 12
    TXT = 16
    AAAA = 28
    SRV = 33
    OPT = 41
    ANY = 255


@dataclass(frozen=True, slots=True)
class DnsRecord:
    """One answer: `value` is an address, or the name that a PTR, CNAME or SRV leads to; `port` is an SRV's."""

    name: str
    type: RecordType
    value: str
    port: int = 0


@dataclass(frozen=True, slots=True)
class DnsAnswer:
    """What is known of a name. A name that is `known` but has no records is of another type than asked for."""

    exists: bool
    records: tuple[DnsRecord, ...] = ()
    additional: tuple[DnsRecord, ...] = ()
    authoritative: bool = True  # whether the name lies where we know everything there is


NXDOMAIN = DnsAnswer(exists=False)
NO_DATA = DnsAnswer(exists=True)
OUT_OF_ZONE = DnsAnswer(exists=False, authoritative=False)
