"""String formats of schemas, each as a predicate."""

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime

from volcano.kube.api.formats.names import dns_label, dns_subdomain

_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:?\d\d)?")
_DURATION = re.compile(
    r"[-+]?(0|((\d+\.?\d*|\.\d+)\s*(ns|us|µs|μs|ms|s|m|h|d|w|hours?|minutes?|seconds?|days?))+)"
)
_UUID = "[0-9a-f]{8}-?[0-9a-f]{4}-?%s[0-9a-f]{3}-?%s[0-9a-f]{3}-?[0-9a-f]{12}"
_HEX = "[0-9a-f]"


def _matches(pattern: str, flags: int = 0) -> Callable[[str], bool]:
    match = re.compile(pattern, flags).fullmatch
    return lambda text: match(text) is not None


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def parses(text: str) -> bool:
        try:
            parse(text)
        except (ValueError, binascii.Error):
            return False
        return True

    return parses


def _date_time(text: str) -> bool:
    if not _DATE_TIME.fullmatch(text):
        return False
    return _parses(datetime.fromisoformat)(text.upper().replace(" ", "T"))


def _base64(text: str) -> bool:
    return _parses(lambda value: base64.b64decode(value, validate=True))(text)


def _host_name(text: str) -> bool:
    labels = text.split(".")
    return 0 < len(text) <= 255 and all(
        re.fullmatch(r"[^\W_]([\w-]{0,61}[^\W_])?", label) is not None for label in labels
    )


def _isbn(text: str, *lengths: int) -> bool:
    digits = re.sub("[ -]", "", text)
    return len(digits) in lengths and re.fullmatch(r"\d+X?", digits) is not None


FORMATS: Mapping[str, Callable[[str], bool]] = {
    "bsonobjectid": _matches("[0-9a-f]{24}", re.I),
    "byte": _base64,
    "cidr": lambda text: "/" in text and _parses(lambda it: ipaddress.ip_network(it, strict=False))(text),
    "creditcard": lambda text: re.fullmatch(r"\d{13,16}", re.sub(r"\D", "", text)) is not None,
    "date": _parses(date.fromisoformat),
    "datetime": _date_time,
    "duration": lambda text: _DURATION.fullmatch(text) is not None,
    "email": _matches(r"[^@\s]+@[^@\s]+"),
    "hexcolor": _matches("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "hostname": _host_name,
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "isbn": lambda text: _isbn(text, 10, 13),
    "isbn10": lambda text: _isbn(text, 10),
    "isbn13": lambda text: _isbn(text, 13),
    "k8slongname": lambda text: not dns_subdomain(text),
    "k8sshortname": lambda text: not dns_label(text),
    "mac": _matches(
        "([0-9a-f]{2}[:-]){5}[0-9a-f]{2}([:-][0-9a-f]{2}){0,2}|([0-9a-f]{4}\\.){2}[0-9a-f]{4}", re.I
    ),
    "password": lambda text: True,
    "rgbcolor": _matches(r"rgb\(\s*\d{1,3}\s*,\s*\d{1,3}\s*,\s*\d{1,3}\s*\)"),
    "ssn": _matches(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "uri": _matches(r"(/\S*|[A-Za-z][A-Za-z0-9+.-]*:\S+)"),
    "uuid": _matches(_UUID % (_HEX, _HEX), re.I),
    "uuid3": _matches(_UUID % ("3", _HEX), re.I),
    "uuid4": _matches(_UUID % ("4", "[89ab]"), re.I),
    "uuid5": _matches(_UUID % ("5", "[89ab]"), re.I),
}


def format_named(name: str) -> Callable[[str], bool] | None:
    """Predicate of a string format; None for formats that are not enforced."""
    return FORMATS.get(name.replace("-", ""))
