"""One function reads the YAML that users write: as JSON values, within limits, without recursion."""

import ast
import re
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import volcano
from volcano.base.yaml_loader import YamlError, YamlLimits, YamlTooLarge, load_documents, load_yaml
from volcano.scheduler.engine.config import ConfigError, parse

# PyYAML writes `1E5` as it is and reads it as text; Go and we read a number.
NUMBER = re.compile(r"[-+]?[0-9][0-9_.]*[eE][-+]?[0-9]+")
TEXTS = st.text().filter(lambda text: NUMBER.fullmatch(text) is None)
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXTS | st.floats(
    allow_nan=False, allow_infinity=False
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda children: st.lists(children, max_size=4) | st.dictionaries(TEXTS, children, max_size=4),
    max_leaves=20,
)
BOMB = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10)]
)


@given(VALUES, st.sampled_from([None, True, False]))
def test_what_was_written_as_yaml_is_read_back(value: Any, flow_style: bool | None) -> None:
    text = yaml.safe_dump(value, default_flow_style=flow_style)
    assert load_yaml(text).value == value


@given(st.text(alphabet="ab01:-[]{}&*#'\"|>!?,~<= \n", max_size=60) | st.binary(max_size=40))
def test_any_text_is_a_value_or_a_yaml_error(text: str | bytes) -> None:
    try:
        load_yaml(text)
        load_documents(text)
    except YamlError:
        pass


@given(st.text(alphabet="ab:-[]{}&*<, \n", max_size=60))
def test_structure_is_that_of_the_reference_loader(text: str) -> None:
    try:
        ours = load_yaml(text).value
    except YamlError:
        return
    try:
        theirs = next(iter(yaml.load_all(text, yaml.CBaseLoader)), None)
    except (yaml.YAMLError, RecursionError, TypeError):
        return
    if "<<" not in text and "*" not in text:
        assert _texts(ours) == _texts(theirs)


def _texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            str(key or ""): _texts(child) for key, child in value.items() if key not in (None, "", "null")
        }
    if isinstance(value, list):
        return [_texts(child) for child in value]
    return "" if value is None else str(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}),
        ("a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}", {"a": {"b": 1, "c": 2}, "d": {"b": 1, "c": 3}}),
        ("- &x {b: 1}\n- &y {b: 2, d: 3}\n- {<<: [*x, *y]}", [{"b": 1}, {"b": 2, "d": 3}, {"b": 1, "d": 3}]),
        ("- <<\n- '<<'", ["<<", "<<"]),
        ("a: !!str 1\nb: !!int '2'\nc: !!float '1'", {"a": "1", "b": 2, "c": 1.0}),
        ("&a a: *a", {"a": "a"}),
        ("", None),
        ("# only a comment", None),
    ],
)  # fmt: skip
def test_aliases_merge_keys_and_tags(text: str, value: Any) -> None:
    assert load_yaml(text).value == value


def test_an_alias_is_a_copy_that_can_be_changed_on_its_own() -> None:
    value = load_yaml("a: &x {b: [1]}\nc: *x").value
    value["c"]["b"].append(2)
    assert value["a"] == {"b": [1]}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: &a [*a]", "line 1: unknown or unfinished anchor 'a'"),
        ("a: *b", "line 1: unknown or unfinished anchor 'b'"),
        ("a: 1\nb: .inf", "line 2: numbers must be finite"),
        ("a: " + "9" * 5000, "line 1: whole numbers must fit in 64 bits"),
        ("a: !!binary eA==", "has no JSON form"),
        ("a: !custom {b: 1}", "have no JSON form"),
        ("? [a]\n: b", "line 1: map keys must be text or numbers, not list"),
        ("a: {<<: 1}", "line 1: the value of a merge key must be a map or a list of maps"),
        ("a: [1", "while parsing a flow sequence"),
        (b"a: \xff", "invalid leading UTF-8 octet"),
    ],
)
def test_an_error_names_the_line_and_the_problem(text: str | bytes, problem: str) -> None:
    with pytest.raises(YamlError) as raised:
        load_yaml(text)
    assert problem in str(raised.value)


@pytest.mark.parametrize("opening", ["[", "- ", "? ", "{a: ", "- - ", "[{a: "])
def test_deep_nesting_is_rejected(opening: str) -> None:
    with pytest.raises(YamlError, match="exceeded max depth of 128"):
        load_yaml(opening * 40_000)


def test_depth_counts_through_aliases() -> None:
    levels = ["a0: &a0 [[[[[[[[[[x]]]]]]]]]]"] + [f"a{i}: &a{i} [[[[[*a{i - 1}]]]]]" for i in range(1, 40)]
    with pytest.raises(YamlError, match="exceeded max depth of 128"):
        load_yaml("\n".join(levels))


def test_aliases_are_not_expanded_beyond_the_limit() -> None:
    tracemalloc.start()
    with pytest.raises(YamlError, match="excessive aliasing"):
        load_yaml(BOMB)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50 << 20


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("- a\n" * 11, YamlLimits(values=10)),
        ("a: " + "b" * 100, YamlLimits(size=100)),
        ("---\n- a\n" * 11, YamlLimits(values=10)),
        ("%TAG !a! x\n" * 200, YamlLimits()),
    ],
)
def test_a_text_beyond_a_limit_is_too_large(text: str, limits: YamlLimits) -> None:
    with pytest.raises(YamlTooLarge):
        load_documents(text, limits)


def test_a_scheduler_configuration_with_an_alias_bomb_is_rejected() -> None:
    with pytest.raises(ConfigError, match="excessive aliasing"):
        parse(f'actions: "allocate"\n{BOMB}')


def test_a_scheduler_configuration_that_is_nested_too_deeply_is_rejected() -> None:
    with pytest.raises(ConfigError, match="exceeded max depth"):
        parse("[" * 40_000)


def test_every_module_reads_yaml_with_this_loader() -> None:
    root = Path(volcano.__file__).parent
    loads = [
        f"{path.relative_to(root)}:{node.lineno}"
        for path in root.rglob("*.py")
        if path.stem != "yaml_loader"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "yaml"
        and ("load" in node.attr.lower() or node.attr in ("compose", "compose_all", "parse", "scan"))
    ]
    assert loads == []
