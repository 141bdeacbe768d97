"""Validation of names, keys, ports and addresses; each check returns its error messages."""

import ipaddress
import re
from collections.abc import Callable
from functools import lru_cache

NameCheck = Callable[[str], tuple[str, ...]]
_VALID: tuple[str, ...] = ()

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_DNS_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_QUALIFIED})?"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_HEADER = "[-A-Za-z0-9]+"
_PERCENT = "[0-9]+%"

_URL_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_ALNUM_ENDS = "and must start and end with an alphanumeric character"
_QUALIFIED_RULE = f"must consist of alphanumeric characters, '-', '_' or '.', {_ALNUM_ENDS}"


def _regex_error(rule: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    opening = f" (e.g. {shown}" if examples else " ("
    return f"{rule}{opening}regex used for validation is '{pattern}')"


def _at_most(length: int) -> str:
    return f"must be no more than {length} characters"


def _check(pattern: str, longest: int, error: str) -> NameCheck:
    matches = re.compile(pattern).fullmatch

    @lru_cache(maxsize=4096)
    def check(value: str) -> tuple[str, ...]:
        long = (_at_most(longest),) if longest and len(value) > longest else _VALID
        return long if matches(value) else (*long, error)

    return check


dns_subdomain = _check(
    _SUBDOMAIN,
    253,
    _regex_error(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
        + _ALNUM_ENDS,
        _SUBDOMAIN,
        "example.com",
    ),
)
wildcard_subdomain = _check(
    rf"\*\.{_SUBDOMAIN}",
    253,
    _regex_error(
        "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
        "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
        rf"\*\.{_SUBDOMAIN}",
        "*.example.com",
    ),
)
_plain_dns_label = _check(
    _LABEL,
    63,
    _regex_error(
        f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ALNUM_ENDS}",
        _LABEL,
        "my-name",
        "123-abc",
    ),
)
dns_1035_label = _check(
    _DNS_1035,
    63,
    _regex_error(
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
        "character, and end with an alphanumeric character",
        _DNS_1035,
        "my-name",
        "abc-123",
    ),
)
label_value = _check(
    _LABEL_VALUE,
    63,
    _regex_error(
        f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_ALNUM_ENDS}",
        _LABEL_VALUE,
        "MyValue",
        "my_value",
        "12345",
    ),
)
http_header_name = _check(
    _HEADER,
    0,
    _regex_error(
        "a valid HTTP header must consist of alphanumeric characters or '-'", _HEADER, "X-Header-Name"
    ),
)
percent = _check(
    _PERCENT,
    0,
    _regex_error(
        "a valid percent string must be a numeric string followed by an ending '%'", _PERCENT, "1%", "93%"
    ),
)
_config_key = _check(
    _CONFIG_KEY,
    253,
    _regex_error(
        "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
        _CONFIG_KEY,
        "key.name",
        "KEY_NAME",
        "key-name",
    ),
)
_QUALIFIED_ERROR = _regex_error(_QUALIFIED_RULE, _QUALIFIED, "MyName", "my.name", "123-abc")
_is_qualified = re.compile(_QUALIFIED).fullmatch


@lru_cache(maxsize=4096)
def dns_label(value: str) -> tuple[str, ...]:
    """Validates a DNS label."""
    errors = _plain_dns_label(value)
    if errors and not dns_subdomain(value):
        return (*(_at_most(63) for _ in range(len(value) > 63)), "must not contain dots")
    return errors


@lru_cache(maxsize=4096)
def qualified_name(value: str) -> tuple[str, ...]:
    """Validates a label or annotation key: a name with an optional DNS prefix before a slash."""
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        return (
            f"a valid label key {_QUALIFIED_ERROR} with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')",
        )
    errors: list[str] = []
    if slash:
        if not prefix:
            errors.append("prefix part must be non-empty")
        errors.extend(f"prefix part {error}" for error in (dns_subdomain(prefix) if prefix else ()))
    if not name:
        errors.append("name part must be non-empty")
    elif len(name) > 63:
        errors.append(f"name part {_at_most(63)}")
    if not _is_qualified(name):
        errors.append(f"name part {_QUALIFIED_ERROR}")
    return tuple(errors)


def config_key(value: str) -> tuple[str, ...]:
    """Validates a key of a ConfigMap or Secret."""
    errors = _config_key(value)
    if value in (".", ".."):
        return (*errors, f"must not be '{value}'")
    return (*errors, "must not start with '..'") if value.startswith("..") else errors


@lru_cache(maxsize=4096)
def env_name(value: str) -> tuple[str, ...]:
    """Validates the name of an environment variable."""
    if not value:
        return ("environment variable name must be non-empty",)
    if all(" " <= character <= "~" and character != "=" for character in value):
        return _VALID
    return (
        "a valid environment variable name must consist only of printable ASCII characters other than '='",
    )


@lru_cache(maxsize=4096)
def port_name(value: str) -> tuple[str, ...]:
    """Validates the name of a port."""
    errors = []
    if len(value) > 15:
        errors.append(_at_most(15))
    if not re.fullmatch("[-a-z0-9]+", value):
        errors.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", value):
        errors.append("must contain at least one letter (a-z)")
    if "--" in value:
        errors.append("must not contain consecutive hyphens")
    if value[:1] == "-" or value[-1:] == "-":
        errors.append("must not begin or end with a hyphen")
    return tuple(errors)


def port_number(value: int) -> tuple[str, ...]:
    """Validates a port number."""
    return _VALID if 1 <= value <= 65535 else (in_range(1, 65535),)


def in_range(low: int, high: int) -> str:
    return f"must be between {low} and {high}, inclusive"


def path_segment(value: str) -> tuple[str, ...]:
    """Validates a name that is only a segment of a URL path."""
    if value in (".", ".."):
        return (f"may not be '{value}'",)
    return tuple(f"may not contain '{character}'" for character in "/%" if character in value)


def ip_address(value: str) -> tuple[str, ...]:
    """Validates an IP address."""
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return ("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",)
    return _VALID


def cidr(value: str) -> tuple[str, ...]:
    """Validates a CIDR."""
    try:
        ipaddress.ip_network(value, strict=False)
    except ValueError:
        return ("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",)
    return _VALID if "/" in value else ("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",)


url_path = _check(_URL_PATH, 0, _regex_error("Invalid path", _URL_PATH))


def interface_address(value: str) -> tuple[str, ...]:
    """Validates the address of a network interface with its prefix length."""
    try:
        address = ipaddress.ip_interface(value)
    except ValueError:
        address = None
    if address is None or "/" not in value:
        return ("must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)",)
    return _VALID if str(address) == value else (f'must be in canonical form ("{address}")',)


_UID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def uid(value: str) -> tuple[str, ...]:
    """Validates a UUID in its normal form."""
    if _UID.fullmatch(value):
        return _VALID
    if _UID.fullmatch(value.lower()):
        form = "`xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters"
        return (f"uid must be in RFC 4122 normalized form, {form}",)
    problem = "invalid UUID format" if len(value) == 36 else f"invalid UUID length: {len(value)}"
    return (f"error validating uid: {problem}",)


_NUMBER = r"(0|[1-9]\d*)"
_PRE_RELEASE = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_BUILD = "[0-9a-zA-Z-]+"
_SEMANTIC = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PRE_RELEASE}(\.{_PRE_RELEASE})*)?(\+{_BUILD}(\.{_BUILD})*)?"
)


def semantic_version(value: str) -> tuple[str, ...]:
    """Validates a version such as 1.2.3."""
    is_valid = value.isascii() and _SEMANTIC.fullmatch(value)
    return _VALID if is_valid else ("must be a string compatible with semver.org spec 2.0.0",)
