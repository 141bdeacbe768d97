"""CEL libraries of Kubernetes: quantities, IPs and CIDRs, URLs, semantic versions, lists, regex, strings, formats."""

import ipaddress
import itertools
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cel import OptionalValue, stdlib

from volcano.apiserver.schema.formats import format_named
from volcano.kube import duration, quantity

# Values of types that the CEL engine does not have are maps with one key that names the type.
_QUANTITY, _IP, _CIDR, _URL, _SEMVER = "@quantity", "@ip", "@cidr", "@url", "@semver"
_SEMVER_TEXT = re.compile(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")


def _accepts(parse: Callable[[Any], Any]) -> Callable[[Any], bool]:
    def accepts(text: Any) -> bool:
        try:
            parse(text)
        except (ValueError, TypeError):
            return False
        return True

    return accepts


def _quantity(text: str) -> dict[str, str]:
    return {_QUANTITY: str(quantity.parse(text))}


def _ip(value: Any) -> dict[str, str]:
    return {_IP: str(ipaddress.ip_address(value))}


def _cidr(value: str) -> dict[str, str]:
    if "/" not in value:
        raise ValueError(f"{value!r} is not an address range; write it like 10.0.0.0/8")
    return {_CIDR: str(ipaddress.ip_interface(value))}


def _url(text: str) -> dict[str, str]:
    parts = urlsplit(text)
    if not text or not (parts.scheme or text.startswith("/")):
        raise ValueError(f"{text!r} is not an absolute URL or path")
    return {_URL: text}


def _semver(text: str, lenient: bool = False) -> dict[str, Any]:
    found = _SEMVER_TEXT.fullmatch(text)
    if found is None or (not lenient and (text.startswith("v") or found[3] is None)):
        raise ValueError(f"{text!r} is not a semantic version; write it like 1.2.3")
    return {_SEMVER: text.removeprefix("v")}


def _sort_key(value: Mapping[str, Any]) -> Any:
    """Sort key of a quantity or semantic version."""
    if _QUANTITY in value:
        return Decimal(value[_QUANTITY])
    found = _SEMVER_TEXT.fullmatch(value[_SEMVER])
    if found is None:
        raise ValueError(f"{value!r} cannot be compared")
    pre = found[4]
    parts = [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in pre.split(".")] if pre else []
    return tuple(int(found[group] or 0) for group in (1, 2, 3)), pre is None, parts


def _amount(value: Any) -> Decimal:
    return Decimal(value[_QUANTITY]) if isinstance(value, dict) else Decimal(value)


def _compare(left: Any, right: Any) -> int:
    a, b = _sort_key(left), _sort_key(right)
    return int(a > b) - int(a < b)


def _address(value: Any) -> Any:
    return ipaddress.ip_address(value[_IP] if isinstance(value, dict) else value)


def _network(value: Any) -> Any:
    text = value[_CIDR] if isinstance(value, dict) else value
    return ipaddress.ip_network(text, strict=False)


def _contains_cidr(holder: Any, other: Any) -> bool:
    outer, inner = _network(holder), _network(other)
    return bool(outer.version == inner.version and inner.subnet_of(outer))


def _url_part(name: str) -> Callable[[Any], Any]:
    def part(value: Mapping[str, str]) -> Any:
        parts = urlsplit(value[_URL])
        components: dict[str, Any] = {
            "scheme": parts.scheme,
            "host": parts.netloc.rpartition("@")[2],
            "hostname": parts.hostname or "",
            "port": str(parts.port or ""),
            "path": parts.path,
            "query": parse_qs(parts.query, keep_blank_values=True),
        }
        return components[name]

    return part


def _format(template: str, values: list[Any]) -> str:
    """Formats `%s`, `%d`, `%f`, `%e`, `%x`, `%b`, `%o` and `%%`, as the strings extension of CEL."""
    remaining = iter(values)

    def fill(found: re.Match[str]) -> str:
        if found[0] == "%%":
            return "%"
        try:
            value = next(remaining)
        except StopIteration:
            raise ValueError(f"{template!r} asks for more values than it is given") from None
        verb = found[2]
        if verb == "s":
            return text_of(value)
        if verb == "b":
            return f"{int(value):b}"
        return str(f"%{found[1] or ''}{verb}" % value)

    return re.sub(r"%%|%(\.\d+)?([sdfexXob])", fill, template)


def text_of(value: Any) -> str:
    """Formats a value as CEL does."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return duration.format(value.total_seconds())
    if isinstance(value, list):
        return f"[{', '.join(text_of(item) for item in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{text_of(key)}: {text_of(value[key])}' for key in sorted(value))}}}"
    return str(value)


def _sorted(values: list[Any]) -> bool:
    return all(left <= right for left, right in itertools.pairwise(values))


def _index_of(values: Any, item: Any, *start: int) -> int:
    if isinstance(values, list):
        return values.index(item) if item in values else -1
    return str(values).find(item, *start)


def _last_index_of(values: Any, item: Any, *start: int) -> int:
    if isinstance(values, list):
        return len(values) - 1 - values[::-1].index(item) if item in values else -1
    return str(values).rfind(item, *start)


def _find(text: str, pattern: str) -> str:
    found = re.search(pattern, text)
    return found[0] if found else ""


def _find_all(text: str, pattern: str, *limit: int) -> list[str]:
    found = [match[0] for match in re.finditer(pattern, text)]
    return found[: limit[0]] if limit and limit[0] >= 0 else found


def _optional_select(holder: Any, name: Any) -> OptionalValue:
    """Evaluates `holder.?name`: the field, if present."""
    if isinstance(holder, OptionalValue):
        if not holder.has_value():
            return OptionalValue.none()
        holder = holder.value()
    if isinstance(holder, dict) and name in holder:
        return OptionalValue.of(holder[name])
    if isinstance(holder, list) and isinstance(name, int) and 0 <= name < len(holder):
        return OptionalValue.of(holder[name])
    return OptionalValue.none()


def _validate_format(name: str, text: str) -> OptionalValue:
    is_valid = format_named(
        {"dns1123Label": "k8s-short-name", "dns1123Subdomain": "k8s-long-name"}.get(name, name)
    )
    if is_valid is None or is_valid(text):
        return OptionalValue.none()
    return OptionalValue.of([f"{text!r} is not a valid {name}"])


def _arithmetic(sign: int) -> Callable[[Any, Any], dict[str, str]]:
    return lambda left, right: {_QUANTITY: str(_amount(left) + sign * _amount(right))}


OPTIONAL_SELECT = "optionalPick"
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **stdlib.STDLIB_FUNCTIONS,
    OPTIONAL_SELECT: _optional_select,
    "quantity": _quantity,
    "isQuantity": _accepts(_quantity),
    "asInteger": lambda value: int(_amount(value)),
    "isInteger": lambda value: _amount(value) == int(_amount(value)),
    "asApproximateFloat": lambda value: float(_amount(value)),
    "sign": lambda value: int((_amount(value) > 0) - (_amount(value) < 0)),
    "add": _arithmetic(1),
    "sub": _arithmetic(-1),
    "compareTo": _compare,
    "isGreaterThan": lambda left, right: _compare(left, right) > 0,
    "isLessThan": lambda left, right: _compare(left, right) < 0,
    "semver": _semver,
    "isSemver": _accepts(_semver),
    "major": lambda value: _sort_key(value)[0][0],
    "minor": lambda value: _sort_key(value)[0][1],
    "patch": lambda value: _sort_key(value)[0][2],
    "ip": lambda value: _ip(value[_CIDR].partition("/")[0] if isinstance(value, dict) else value),
    "isIP": lambda text, *version: (
        _accepts(_ip)(text) and (not version or ipaddress.ip_address(text).version == version[0])
    ),
    "ip.isCanonical": lambda text: str(ipaddress.ip_address(text)) == text,
    "family": lambda value: _address(value).version,
    "isLoopback": lambda value: _address(value).is_loopback,
    "isUnspecified": lambda value: _address(value).is_unspecified,
    "isLinkLocalMulticast": lambda value: _address(value).is_multicast and _address(value).is_link_local,
    "isLinkLocalUnicast": lambda value: _address(value).is_link_local,
    "isGlobalUnicast": lambda value: not (_address(value).is_loopback or _address(value).is_multicast),
    "cidr": _cidr,
    "isCIDR": _accepts(_cidr),
    "containsIP": lambda holder, value: _address(value) in _network(holder),
    "containsCIDR": _contains_cidr,
    "prefixLength": lambda value: _network(value).prefixlen,
    "masked": lambda value: {_CIDR: str(_network(value))},
    "url": _url,
    "isURL": _accepts(_url),
    "getScheme": _url_part("scheme"),
    "getHost": _url_part("host"),
    "getHostname": _url_part("hostname"),
    "getPort": _url_part("port"),
    "getEscapedPath": _url_part("path"),
    "getQuery": _url_part("query"),
    "isSorted": _sorted,
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "find": _find,
    "findAll": _find_all,
    "format": _format,
    **{
        f"format.{name}": (lambda name=name: name)
        for name in ("dns1123Label", "dns1123Subdomain", "uuid", "uri")
    },
    "validate": _validate_format,
}
