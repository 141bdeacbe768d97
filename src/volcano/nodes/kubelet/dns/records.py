"""DNS records and answers as values."""

from dataclasses import dataclass
from enum import IntEnum


class RecordType(IntEnum):
    """Record types that are answered or recognized."""

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
    """One record: `value` is an address or the target name; `port` is that of an SRV record."""

    name: str
    type: RecordType
    value: str
    port: int = 0


@dataclass(frozen=True, slots=True)
class DnsAnswer:
    """Answer for a name. One that `exists` without records has only records of other types."""

    exists: bool
    records: tuple[DnsRecord, ...] = ()
    additional: tuple[DnsRecord, ...] = ()
    authoritative: bool = True  # whether the name is in a zone of this server


NXDOMAIN = DnsAnswer(exists=False)
NO_DATA = DnsAnswer(exists=True)
OUT_OF_ZONE = DnsAnswer(exists=False, authoritative=False)
