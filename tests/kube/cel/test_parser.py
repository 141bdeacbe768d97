"""Limits of the parser: no expression exhausts the stack, the memory or much time."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcano.kube.cel.declarations import declare
from volcano.kube.cel.program import InvalidExpression, Program


def compiled(text: str) -> Program:
    declaration = declare({"type": "object", "properties": {"a": {"type": "integer"}}})
    assert declaration is not None
    return Program(text, {"self": declaration})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("+".join(["1"] * 50_000), "max recursion depth exceeded", id="a sum of 50,000 terms"),
        pytest.param("(" * 50_000 + "1" + ")" * 49_999, "recursion limit exceeded", id="nested parentheses"),
        pytest.param("[" * 50_000, "recursion limit exceeded", id="nested lists"),
        pytest.param("{1:" * 30_000, "recursion limit exceeded", id="nested maps"),
        pytest.param("true?true:" * 9_000 + "true", "recursion limit exceeded", id="nested conditionals"),
        pytest.param("'a'" + ".trim()" * 10_000, "max recursion depth exceeded", id="a chain of calls"),
        pytest.param("self" + ".a" * 40_000, "max recursion depth exceeded", id="a chain of fields"),
        pytest.param("self" + "[0]" * 30_000, "max recursion depth exceeded", id="a chain of indexes"),
        pytest.param("[1].map(x, " * 5_000 + "1", "recursion limit exceeded", id="nested macros"),
        pytest.param("x" * 100_001, "code point size exceeds limit: size: 100001, limit 100000", id="length"),
        pytest.param("a||b&&c==d+e*(" * 5_000, "recursion limit exceeded", id="nested operators"),
    ],
)
def test_expressions_that_are_too_large_are_rejected(text: str, message: str) -> None:
    with pytest.raises(InvalidExpression, match=message):
        compiled(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("&&".join(["true"] * 10_000), id="10,000 conditions"),
        pytest.param("!" * 9_999 + "true" + "|| true", id="negations"),
        pytest.param("(" * 90 + "true" + ")" * 90, id="parentheses"),
        pytest.param("+".join(["1"] * 150) + " > 0", id="a sum"),
        pytest.param("true || " + "[1].all(x, " * 40 + "true" + ")" * 40, id="macros"),
    ],
)
def test_long_expressions_are_evaluated(text: str) -> None:
    assert compiled(text).evaluate({"self": {"a": 1}})[0] is True


def test_a_chain_of_macros_that_use_their_receiver_twice_takes_little_time() -> None:
    program = compiled("optional.of(1)" + ".optMap(x, x + 1)" * 40 + ".value() == 41")
    assert program.cost.most > 10_000_000


@given(st.text(alphabet="selfa. ()[]{}?:!&|<>=+-*/%,'\"\\0123rbux\n", max_size=60))
def test_any_text_compiles_or_is_rejected(text: str) -> None:
    with suppress(InvalidExpression):
        compiled(text)
