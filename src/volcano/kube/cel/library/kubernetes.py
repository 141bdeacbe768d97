"""Kubernetes' own functions: quantities, IP addresses and ranges, URLs, versions, named formats, searching patterns."""

import ipaddress
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from volcano.kube.api import quantity
from volcano.kube.api.formats.names import (
    dns_1035_label,
    dns_label,
    dns_subdomain,
    label_value,
    qualified_name,
)
from volcano.kube.api.formats.string_formats import format_named
from volcano.kube.cel import types
from volcano.kube.cel.errors import CostLimitExceeded, EvaluationError
from volcano.kube.cel.library.overload import (
    ONE,
    REGEX_FACTOR,
    STRING_FACTOR,
    Definitions,
    Estimate,
    Range,
    Sizes,
    regex,
    regex_price,
    traversal,
    traversal_price,
)
from volcano.kube.cel.library.standard import pattern
from volcano.kube.cel.syntax import Expression
from volcano.kube.cel.types import (
    BOOL,
    CIDR,
    DOUBLE,
    FORMAT,
    INT,
    IP,
    QUANTITY,
    SEMVER,
    STRING,
    URL,
)
from volcano.kube.cel.values import NONE, Optional, integer, size_of

KUBERNETES = Definitions(overhead=30)
_define, _method = KUBERNETES.function, KUBERNETES.method
_PARSING, _PARSED = traversal(0), traversal_price(0)


def _accepts(parse: Callable[..., Any]) -> Callable[..., bool]:
    def accepts(*arguments: Any) -> bool:
        try:
            parse(*arguments)
        except EvaluationError:
            return False
        return True

    return accepts


# -- patterns --------------------------------------------------------------------------------------------------------


# Each match takes a few microseconds, whatever its length.
MOST_MATCHES = 30_000


def _find(text: str, source: str) -> str:
    return next(iter(pattern(source).find_all(text, 1)), "")


def _find_all(text: str, source: str, limit: int = -1) -> list[str]:
    most = limit if 0 <= limit <= MOST_MATCHES else MOST_MATCHES + 1
    found = pattern(source).find_all(text, most)
    if len(found) > MOST_MATCHES:
        raise CostLimitExceeded
    return found


_parameters: tuple[types.Type, ...]
_method("find", (STRING, STRING), STRING, _find, estimate=regex, price=regex_price)
for _parameters in ((STRING, STRING), (STRING, STRING, INT)):
    _method("findAll", _parameters, types.list_of(STRING), _find_all, estimate=regex, price=regex_price)


# -- quantities ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount of a resource."""

    amount: Decimal
    type_name = "kubernetes.Quantity"


def _quantity(text: str) -> Quantity:
    try:
        return Quantity(quantity.parse(text))
    except ValueError:
        raise EvaluationError(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        ) from None


def _as_integer(value: Quantity) -> int:
    if not _is_integer(value):
        raise EvaluationError("cannot convert value to integer")
    return int(value.amount)


def _is_integer(value: Quantity) -> bool:
    return value.amount == value.amount.to_integral_value() and -(2**63) <= value.amount < 2**63


def _amount(value: Quantity | int) -> Decimal:
    return value.amount if isinstance(value, Quantity) else Decimal(value)


def _sign(value: Any) -> int:
    return int(value > 0) - int(value < 0)


_define("quantity", (STRING,), QUANTITY, _quantity, estimate=_PARSING, price=_PARSED)
_define("isQuantity", (STRING,), BOOL, _accepts(_quantity), estimate=_PARSING, price=_PARSED)
_define("sign", (QUANTITY,), INT, lambda value: _sign(value.amount))
_method("isInteger", (QUANTITY,), BOOL, _is_integer)
_method("asInteger", (QUANTITY,), INT, _as_integer)
_method("asApproximateFloat", (QUANTITY,), DOUBLE, lambda value: float(value.amount))
_method("isGreaterThan", (QUANTITY, QUANTITY), BOOL, lambda a, b: a.amount > b.amount)
_method("isLessThan", (QUANTITY, QUANTITY), BOOL, lambda a, b: a.amount < b.amount)
_method("compareTo", (QUANTITY, QUANTITY), INT, lambda a, b: _sign(a.amount - b.amount))
for _other in (QUANTITY, INT):
    _method("add", (QUANTITY, _other), QUANTITY, lambda a, b: Quantity(a.amount + _amount(b)))
    _method("sub", (QUANTITY, _other), QUANTITY, lambda a, b: Quantity(a.amount - _amount(b)))


# -- semantic versions -----------------------------------------------------------------------------------------------

_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
    r"(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Semver:
    """A semantic version; build metadata does not count."""

    numbers: tuple[int, int, int]
    pre_release: tuple[tuple[int, int, str], ...]
    type_name = "kubernetes.Semver"

    def sort_key(self) -> tuple[tuple[int, int, int], bool, tuple[tuple[int, int, str], ...]]:
        return self.numbers, not self.pre_release, self.pre_release


def parse_semver(text: str, normalize: bool = False) -> Semver:
    found = _SEMVER.fullmatch(_normalized(text) if normalize else text)
    if found is None or any(len(found[group]) > 19 for group in (1, 2, 3)):
        raise EvaluationError(f"{text!r} is not a semantic version; write it like 1.2.3")
    parts = found[4].split(".") if found[4] else []
    if any(part.isdigit() and len(part) > 1 and part[0] == "0" for part in parts):
        raise EvaluationError(f"Numeric PreRelease version must not contain leading zeroes in {text!r}")
    pre = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts)
    return Semver((int(found[1]), int(found[2]), int(found[3])), pre)


def _normalized(text: str) -> str:
    """Without the leading v and leading zeros, with minor and patch."""
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[index] = stripped if stripped[:1].isdigit() else f"0{stripped}"
    if len(parts) < 3 and set(parts[-1]) & {"+", "-"}:
        raise EvaluationError("short version cannot contain PreRelease/Build meta data")
    return ".".join([*parts, *["0"] * (3 - len(parts))])


def _compare_versions(first: Semver, second: Semver) -> int:
    a, b = first.sort_key(), second.sort_key()
    return int(a > b) - int(a < b)


for _parameters in ((STRING,), (STRING, BOOL)):
    _define("semver", _parameters, SEMVER, parse_semver, estimate=_PARSING, price=_PARSED)
    _define("isSemver", _parameters, BOOL, _accepts(parse_semver), estimate=_PARSING, price=_PARSED)
for _position, _name in enumerate(("major", "minor", "patch")):
    _method(_name, (SEMVER,), INT, lambda value, position=_position: integer(value.numbers[position]))
_method("isGreaterThan", (SEMVER, SEMVER), BOOL, lambda a, b: _compare_versions(a, b) > 0)
_method("isLessThan", (SEMVER, SEMVER), BOOL, lambda a, b: _compare_versions(a, b) < 0)
_method("compareTo", (SEMVER, SEMVER), INT, _compare_versions)


# -- addresses -------------------------------------------------------------------------------------------------------

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Ip:
    """An IP address."""

    address: _Address
    type_name = "net.IP"

    @property
    def cost_size(self) -> int:
        return len(self.address.packed)


@dataclass(frozen=True, slots=True)
class Cidr:
    """An IP address with the length of its prefix."""

    address: _Address
    length: int
    type_name = "net.CIDR"

    @property
    def network(self) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
        return ipaddress.ip_network((self.address, self.length), strict=False)

    @property
    def cost_size(self) -> int:
        return math.ceil(self.length / 8)


def _ip(text: str) -> Ip:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise EvaluationError(
            f"IP Address {_quoted(text)} parse error during conversion from string: "
            f"ParseAddr({_quoted(text)}): unable to parse IP"
        ) from None
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            raise EvaluationError(f"IP address {_quoted(text)} with zone value is not allowed")
        if address.ipv4_mapped is not None:
            raise EvaluationError(f"IPv4-mapped IPv6 address {_quoted(text)} is not allowed")
    return Ip(address)


def _cidr(text: str) -> Cidr:
    host, slash, length = text.partition("/")
    try:
        address = _ip(host).address
        bits = int(length) if slash and length.isascii() and length.isdigit() and len(length) < 4 else -1
    except EvaluationError:
        bits, address = -1, ipaddress.IPv4Address(0)
    if not 0 <= bits <= address.max_prefixlen or (len(length) > 1 and length[0] == "0"):
        raise EvaluationError(f"network address parse error during conversion from string: {_quoted(text)}")
    return Cidr(address, bits)


def _quoted(text: str) -> str:
    return '"' + text + '"'


def _contains_ip(holder: Cidr, other: Ip | str) -> bool:
    return (other if isinstance(other, Ip) else _ip(other)).address in holder.network


def _contains_cidr(holder: Cidr, other: Cidr | str) -> bool:
    inner = other if isinstance(other, Cidr) else _cidr(other)
    return inner.address in holder.network and inner.length >= holder.length


def _compared(extra: bool, *, text: bool) -> Callable[[Sizes, list[Expression]], Estimate]:
    """Estimate of comparing the bytes of addresses; a text is parsed too."""

    def estimate(sizes: Sizes, operands: list[Expression]) -> Estimate:
        size = Range(4, 16)
        cost = size.plus(size).scaled(STRING_FACTOR)
        if extra:
            cost = cost.plus(size.scaled(STRING_FACTOR)).plus(ONE)
        if text:
            cost = cost.plus(sizes.of(operands[1]).scaled(STRING_FACTOR))
        return Estimate(cost)

    return estimate


def _compared_price(extra: bool) -> Callable[[tuple[Any, ...], Any], int]:
    def price(arguments: tuple[Any, ...], result: Any) -> int:
        size = size_of(arguments[0])
        cost = math.ceil(2 * size * STRING_FACTOR)
        if extra:
            cost += math.ceil(size * STRING_FACTOR) + 1
        if isinstance(arguments[1], str):
            cost += math.ceil(size_of(arguments[1]) * STRING_FACTOR)
        return cost

    return price


def _is_global_unicast(value: Ip) -> bool:
    address = value.address
    if address.is_multicast or address.is_loopback or address.is_unspecified or address.is_link_local:
        return False
    return str(address) != "255.255.255.255"


def _is_link_local_multicast(value: Ip) -> bool:
    address = value.address
    if isinstance(address, ipaddress.IPv4Address):
        return address in ipaddress.ip_network("224.0.0.0/24")
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 2


_define("ip", (STRING,), IP, _ip, estimate=_PARSING, price=_PARSED)
_define("isIP", (STRING,), BOOL, _accepts(_ip), estimate=_PARSING, price=_PARSED)
_define(
    "ip.isCanonical", (STRING,), BOOL, lambda text: str(_ip(text).address) == text,
    estimate=traversal(0, 2 * STRING_FACTOR), price=traversal_price(0, 2 * STRING_FACTOR),
)  # fmt: skip
_method("family", (IP,), INT, lambda value: value.address.version)
_method("isUnspecified", (IP,), BOOL, lambda value: value.address.is_unspecified)
_method("isLoopback", (IP,), BOOL, lambda value: value.address.is_loopback)
_method("isLinkLocalMulticast", (IP,), BOOL, _is_link_local_multicast)
_method("isLinkLocalUnicast", (IP,), BOOL, lambda value: value.address.is_link_local)
_method("isGlobalUnicast", (IP,), BOOL, _is_global_unicast)
_define("string", (IP,), STRING, lambda value: str(value.address))
_define("cidr", (STRING,), CIDR, _cidr, estimate=_PARSING, price=_PARSED)
_define("isCIDR", (STRING,), BOOL, _accepts(_cidr), estimate=_PARSING, price=_PARSED)
for _name, _contained, _contains, _is_range in (
    ("containsIP", IP, _contains_ip, False),
    ("containsCIDR", CIDR, _contains_cidr, True),
):
    for _argument in (_contained, STRING):
        _method(
            _name, (CIDR, _argument), BOOL, _contains,
            estimate=_compared(_is_range, text=_argument is STRING), price=_compared_price(_is_range),
        )  # fmt: skip
_method("ip", (CIDR,), IP, lambda value: Ip(value.address))
_method("prefixLength", (CIDR,), INT, lambda value: value.length)
_method("masked", (CIDR,), CIDR, lambda value: Cidr(value.network.network_address, value.length))
_define("string", (CIDR,), STRING, lambda value: f"{value.address}/{value.length}")


# -- URLs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Url:
    """An absolute URL or path."""

    text: str
    type_name = "kubernetes.URL"

    def part(self, name: str) -> Any:
        parts = urlsplit(self.text)
        match name:
            case "getScheme":
                return parts.scheme
            case "getHost":
                return parts.netloc.rpartition("@")[2]
            case "getHostname":
                host = parts.netloc.rpartition("@")[2]
                return host.partition("]")[0][1:] if host[:1] == "[" else host.partition(":")[0]
            case "getPort":
                return parts.netloc.rpartition("@")[2].rpartition("]")[2].partition(":")[2]
            case "getEscapedPath":
                valid = re.fullmatch(r"[A-Za-z0-9\-._~!$&'()*+,;=:@/\[\]%]*", parts.path) is not None
                return parts.path if valid else quote(unquote(parts.path), safe="/$&+,:;=@-_.~!*'()")
            case _:
                return parse_qs(parts.query, keep_blank_values=True)


def _url(text: str) -> Url:
    """Accepts what Go's `url.ParseRequestURI` accepts."""
    try:
        parts = urlsplit(text)
        is_valid = parts.port is None or parts.port >= 0
    except ValueError:
        is_valid, parts = False, urlsplit("")
    if _NOT_IN_URL.search(text) or " " in parts.netloc:
        is_valid = False
    if not is_valid or not (text.startswith("/") or (parts.scheme and len(text) > len(parts.scheme) + 1)):
        raise EvaluationError(
            f"URL parse error during conversion from string: parse {_quoted(text)}: invalid URI for request"
        )
    return Url(text)


_NOT_IN_URL = re.compile(r"[\x00-\x1f\x7f]|%(?![0-9a-fA-F]{2})")


def _measured(sizes: Sizes, operands: list[Expression]) -> Estimate:
    size = sizes.of(operands[0])
    return Estimate(size.scaled(STRING_FACTOR), size)


_define("url", (STRING,), URL, _url, estimate=_measured, price=_PARSED)
_define("isURL", (STRING,), BOOL, _accepts(_url), price=_PARSED)
for _name in ("getScheme", "getHost", "getHostname", "getPort", "getEscapedPath"):
    _method(_name, (URL,), STRING, lambda value, name=_name: value.part(name))
_method("getQuery", (URL,), types.map_of(STRING, types.list_of(STRING)), lambda value: value.part("getQuery"))


# -- named formats ---------------------------------------------------------------------------------------------------

_MOST_REGEX = 128


@dataclass(frozen=True, slots=True)
class Format:
    """A named format of strings."""

    name: str
    type_name = "kubernetes.NamedFormat"


def _masked(text: str) -> str:
    """A prefix may end with a dash."""
    return f"{text[:-1]}a" if len(text) > 1 and text.endswith("-") else text


def _strfmt(name: str, message: str) -> Callable[[str], tuple[str, ...]]:
    def errors(text: str) -> tuple[str, ...]:
        accepts = format_named(name)
        return () if accepts is None or accepts(text) else (message,)

    return errors


_FORMATS: dict[str, Callable[[str], tuple[str, ...]]] = {
    "dns1123Label": dns_label,
    "dns1123Subdomain": dns_subdomain,
    "dns1035Label": dns_1035_label,
    "qualifiedName": qualified_name,
    "dns1123LabelPrefix": lambda text: dns_label(_masked(text)),
    "dns1123SubdomainPrefix": lambda text: dns_subdomain(_masked(text)),
    "dns1035LabelPrefix": lambda text: dns_1035_label(_masked(text)),
    "labelValue": label_value,
    "uri": lambda text: () if _accepts(_url)(text) else (f'parse "{text}": invalid URI for request',),
    "uuid": _strfmt("uuid", "does not match the UUID format"),
    "byte": _strfmt("byte", "invalid base64"),
    "date": _strfmt("date", "invalid date"),
    "datetime": _strfmt("datetime", "invalid datetime"),
}


def _validate(chosen: Format, text: str) -> Optional:
    errors = list(_FORMATS[chosen.name](text))
    return Optional(errors) if errors else NONE


def _validate_cost(sizes: Sizes, operands: list[Expression]) -> Estimate:
    return Estimate(sizes.of(operands[1]).scaled(STRING_FACTOR).scaled(_MOST_REGEX * REGEX_FACTOR))


def _validate_price(arguments: tuple[Any, ...], result: Any) -> int:
    return math.ceil((1 + size_of(arguments[1])) * STRING_FACTOR) * math.ceil(60 * REGEX_FACTOR)


_define(
    "format.named", (STRING,), types.optional_of(FORMAT),
    lambda name: Optional(Format(name)) if name in _FORMATS else NONE,
)  # fmt: skip
for _name in _FORMATS:
    _define(f"format.{_name}", (), FORMAT, lambda name=_name: Format(name))
_method(
    "validate", (FORMAT, STRING), types.optional_of(types.list_of(STRING)), _validate,
    estimate=_validate_cost, price=_validate_price,
)  # fmt: skip
