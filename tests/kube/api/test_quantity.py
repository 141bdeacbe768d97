"""Quantities are exact in both directions and print as Kubernetes prints them."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volcano.kube.api import quantity

# Text, canonical text, whole units and thousandths, all as resource.Quantity gives them.
KUBERNETES = [
    ("0", "0", 0, 0),
    ("1000m", "1", 1, 1000),
    ("0.5", "500m", 1, 500),
    ("1024Mi", "1Gi", 1073741824, 1073741824000),
    ("1.5", "1500m", 2, 1500),
    ("2000", "2k", 2000, 2000000),
    ("1e3", "1e3", 1000, 1000000),
    ("12E6", "12e6", 12000000, 12000000000),
    ("5e4", "50e3", 50000, 50000000),
    ("1e-3", "1e-3", 1, 1),
    ("1E", "1E", 10**18, 10**21),
    ("1Ei", "1Ei", 2**60, 1000 * 2**60),
    ("1.5Gi", "1536Mi", 1610612736, 1610612736000),
    ("0.5Ki", "512", 512, 512000),
    ("1025Ki", "1025Ki", 1049600, 1049600000),
    ("0.1Mi", "104857600m", 104858, 104857600),
    ("1.1Gi", "1181116006400m", 1181116007, 1181116006400),
    ("1.Gi", "1Gi", 1073741824, 1073741824000),
    (".5Gi", "512Mi", 536870912, 536870912000),
    ("-0.5", "-500m", -1, -500),
    ("-1500Mi", "-1500Mi", -1572864000, -1572864000000),
    ("+5", "5", 5, 5000),
    ("0.0000000001", "1n", 1, 1),
    ("1500u", "1500u", 1, 2),
    ("3.000", "3", 3, 3000),
    ("0Mi", "0", 0, 0),
    ("00100", "100", 100, 100000),
    ("1024", "1024", 1024, 1024000),
    ("8Ei", "9223372036854775807", 2**63 - 1, 1000 * (2**63 - 1)),
]


@pytest.mark.parametrize(("text", "canonical", "whole", "thousandths"), KUBERNETES)
def test_quantities_read_and_print_as_kubernetes_does(
    text: str, canonical: str, whole: int, thousandths: int
) -> None:
    assert quantity.canonical(text) == canonical
    assert quantity.units(text) == float(whole)
    assert quantity.milli(text) == float(thousandths)


@pytest.mark.parametrize("number", [4, 0, 1.5, -2])
def test_plain_numbers_are_quantities(number: int | float) -> None:
    assert quantity.parse(number) == Decimal(str(number))


WRONG = ["", "m", "1 Gi", "1i", "1Kim", "1ee3", "1.2.3", "1_000", "abc", "1e", "1e99999999", "١"]


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_quantity_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity") as refusal:
        quantity.parse(text)
    assert repr(text) in str(refusal.value)


def test_a_boolean_is_no_quantity() -> None:
    assert quantity.milli(1.0) == 1000  # equals True
    with pytest.raises(ValueError, match="is not a quantity"):
        quantity.parse(value=True)
    with pytest.raises(ValueError, match="is not a quantity"):
        quantity.milli(True)


TEXTS = st.builds(
    lambda digits, fraction, suffix: f"{digits}{fraction}{suffix}",
    st.integers(-(10**9), 10**9).map(str),
    st.one_of(st.just(""), st.integers(0, 999999).map(lambda n: f".{n}")),
    st.sampled_from(["", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "E-2"]),
)


@settings(deadline=None)
@given(TEXTS)
def test_the_canonical_text_says_the_same_amount_and_is_its_own_canonical_text(text: str) -> None:
    printed = quantity.canonical(text)
    assert quantity.parse(printed) == quantity.parse(text)
    assert quantity.canonical(printed) == printed


@settings(deadline=None)
@given(st.integers(-(2**62), 2**62))
def test_bytes_print_and_read_back(amount: int) -> None:
    assert quantity.parse(quantity.format_binary(amount)) == amount


@settings(deadline=None)
@given(st.integers(-(10**15), 10**15))
def test_thousandths_print_and_read_back(amount: int) -> None:
    assert quantity.milli(quantity.format_milli(amount)) == amount


def test_numbers_print_with_the_suffix_that_fits() -> None:
    assert quantity.format_milli(1500) == "1500m"
    assert quantity.format_milli(2000) == "2"
    assert quantity.format_binary(3 * 2**30) == "3Gi"
    assert quantity.format_decimal(0.25) == "250m"


@pytest.mark.parametrize("text", ["9" * 5000, "9" * 200 + "e200", "1e299"])
def test_a_quantity_is_rejected_when_its_canonical_form_could_not_be_read(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        quantity.parse(text)
    with pytest.raises(ValueError, match="is not a quantity"):
        quantity.canonical(text)
