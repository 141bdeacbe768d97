"""Quantities: "250m", "1Gi", "1e3" parsed and printed exactly as Kubernetes does."""

import re
from decimal import ROUND_UP, Context, Decimal
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

_TEXT = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]?|[eE][+-]?\d+)", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = {0: ""} | {exponent: suffix for suffix, exponent in _BINARY.items()}
_NANO = Decimal("1e-9")
_LARGEST_BINARY = Decimal(2**63 - 1)
_MOST_DIGITS = 290
_LONGEST_EXPONENT = 5  # digits; bounds the memory that hostile input such as 1e999999999 costs
# Precise enough that no realistic quantity is rounded unintentionally.
_EXACT = Context(prec=400)


class Family(Enum):
    """Families of suffixes; a quantity is printed with those it was written with."""

    DECIMAL = "DecimalSI"
    BINARY = "BinarySI"
    EXPONENT = "DecimalExponent"


class Quantity(NamedTuple):
    """An amount, and its family of suffixes."""

    amount: Decimal
    family: Family

    def __str__(self) -> str:
        return _print(self.amount, self.family)


# Caches are typed: True equals 1.0, and is no quantity.
@lru_cache(maxsize=8192, typed=True)
def read(value: str | int | float) -> Quantity:
    """Parses a quantity with its family; finer than a billionth is rounded up. Raises ValueError naming the
    text."""
    text = value if isinstance(value, str) else str(value)
    found = _TEXT.fullmatch(text)
    if isinstance(value, bool) or found is None:
        raise ValueError(
            f"{text!r} is not a quantity; it must be a number with an optional suffix, "
            "such as 2, 0.5, 250m, 1e3, 16M or 1Gi"
        )
    sign, digits, suffix = found.groups()
    amount = _EXACT.create_decimal(digits)
    if suffix in _BINARY:
        family = Family.BINARY
        amount = min(_EXACT.multiply(amount, Decimal(2 ** _BINARY[suffix])), _LARGEST_BINARY)
    elif suffix in _DECIMAL:
        family = Family.DECIMAL
        amount = amount.scaleb(_DECIMAL[suffix], _EXACT)
    else:
        family = Family.EXPONENT
        amount = amount.scaleb(_exponent(text, suffix), _EXACT)
    if amount.adjusted() > _MOST_DIGITS:  # its canonical form would have a larger exponent than is allowed
        raise ValueError(f"{text[:50]!r} is not a quantity: it must be less than 10^{_MOST_DIGITS}")
    amount = _rounded_up(amount, _NANO)
    return Quantity(-amount if sign == "-" else amount, family)


def parse(value: str | int | float) -> Decimal:
    """Parses the exact amount. Raises ValueError naming the text when it is not a quantity."""
    return read(value).amount


def canonical(value: str | int | float) -> str:
    """Returns the text Kubernetes stores: the shortest integer with a suffix of the same family ("1024Mi" is
    "1Gi")."""
    return str(read(value))


@lru_cache(maxsize=8192, typed=True)
def units(value: str | int | float) -> float:
    """The amount in whole units (bytes, cores, devices), rounded up."""
    return float(_rounded_up(read(value).amount, Decimal(1)))


@lru_cache(maxsize=8192, typed=True)
def milli(value: str | int | float) -> float:
    """The amount in thousandths, rounded up: "1.5" cores are 1500."""
    return float(_rounded_up(read(value).amount.scaleb(3, _EXACT), Decimal(1)))


def format_binary(amount: int | float | Decimal) -> str:
    """Formats a number of bytes with the largest exact binary suffix: 1073741824 is "1Gi"."""
    return _print(_EXACT.create_decimal(amount), Family.BINARY)


def format_decimal(amount: int | float | Decimal) -> str:
    """Formats a number with the largest exact decimal suffix: 0.5 is "500m", 2000 is "2k"."""
    return _print(_rounded_up(Decimal(str(amount)), _NANO), Family.DECIMAL)


def format_milli(amount: int | float | Decimal) -> str:
    """Formats a number of thousandths: 1500 is "1500m", 2000 is "2"."""
    return _print(_rounded_up(Decimal(str(amount)).scaleb(-3, _EXACT), _NANO), Family.DECIMAL)


def _exponent(text: str, suffix: str) -> int:
    if len(suffix) > _LONGEST_EXPONENT or abs(int(suffix[1:])) > 300:
        raise ValueError(f"{text!r} is not a quantity: its exponent must lie between -300 and 300")
    return int(suffix[1:])


def _rounded_up(amount: Decimal, step: Decimal) -> Decimal:
    """Rounds `amount` away from zero to a multiple of `step`."""
    exponent = amount.as_tuple().exponent
    if isinstance(exponent, int) and exponent >= step.adjusted():
        return amount
    return amount.quantize(step, ROUND_UP, _EXACT)


def _print(amount: Decimal, family: Family) -> str:
    if not amount:
        return "0"
    whole = amount == amount.to_integral_value()
    if family is Family.BINARY and whole and abs(amount) >= 1024:
        return _print_binary(int(amount))
    sign, digits, exponent = amount.normalize(_EXACT).as_tuple()
    assert isinstance(exponent, int)
    zeros = exponent % 3
    number = f"{'-' if sign else ''}{''.join(map(str, digits))}{'0' * zeros}"
    exponent -= zeros
    if family is Family.EXPONENT or exponent not in _DECIMAL_SUFFIX:
        return f"{number}e{exponent}" if exponent else number
    return number + _DECIMAL_SUFFIX[exponent]


def _print_binary(amount: int) -> str:
    exponent = 0
    while amount % 1024 == 0 and exponent < 60:
        amount //= 1024
        exponent += 10
    return f"{amount}{_BINARY_SUFFIX[exponent]}"
