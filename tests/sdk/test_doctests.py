"""The examples in the SDK's documentation strings and page, run against a cluster."""

import doctest
from pathlib import Path
from types import ModuleType

import pytest

import volcano.sdk
import volcano.sdk.accounting
import volcano.sdk.analysis
import volcano.sdk.cluster
import volcano.sdk.objects

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "python-sdk.md"
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
RUN = __import__("sys").modules["volcano.sdk.run"]


@pytest.mark.parametrize(
    "module",
    [
        volcano.sdk,
        volcano.sdk.accounting,
        volcano.sdk.analysis,
        volcano.sdk.cluster,
        volcano.sdk.objects,
        RUN,
    ],
    ids=lambda module: module.__name__,
)
def test_the_examples_of_a_module_are_true(configured: None, module: ModuleType) -> None:
    result = doctest.testmod(module, optionflags=OPTIONS, raise_on_error=False)
    assert result.attempted > 0
    assert result.failed == 0


def test_the_examples_of_the_page_are_true(configured: None) -> None:
    result = doctest.testfile(str(PAGE), module_relative=False, optionflags=OPTIONS)
    assert result.attempted > 5
    assert result.failed == 0
