"""The scheduler's configuration on a page: described and checked."""

import sys
from pathlib import Path

import pytest

from volcano.dashboard.data.configuration import LONGEST, check, plugin_rows
from volcano.scheduler.engine.config import parse, shipped

PRESENT = parse(shipped())
OWN = "volcano.scheduler.plugins.gang:Gang"


def test_a_valid_text_has_no_problems() -> None:
    found = check(shipped("volcano-scheduler-preempt.conf"), PRESENT)
    assert found.problems == ()
    assert found.config is not None
    assert "preempt" in found.config.actions


def test_every_error_is_shown_with_its_line() -> None:
    found = check('actions: "enqueue, alocate"\ntiers:\n- plugins:\n  - name: gangg\n', PRESENT)
    assert found.config is None
    assert [problem.line for problem in found.problems] == [1, 4]
    assert "did you mean allocate?" in found.problems[0].text
    assert "did you mean gang?" in found.problems[1].text


def test_a_text_that_is_not_yaml_is_an_error_with_its_line() -> None:
    (problem,) = check("actions: [\n", PRESENT).problems
    assert "this is not YAML" in problem.text


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "actions: 3\ntiers: 4\n", "tiers: [1, {plugins: [2]}]\n"])
def test_texts_of_another_shape_are_errors(text: str) -> None:
    assert check(text, PRESENT).problems


def test_warnings_are_shown_with_their_line() -> None:
    found = check(f"{shipped()}\nunknown: 1\n", PRESENT)
    assert found.config is not None
    assert any("'unknown' is not known" in text for text in found.warnings)


@pytest.mark.parametrize(
    "text",
    [
        'actions: "allocate, evil.code:run"\n',
        "actions: allocate\ntiers:\n- plugins:\n  - name: evil.code:Plugin\n",
        "actions: allocate\ntiers:\n- plugins:\n  - name: evil.code.Plugin\n",
        "actions: allocate\nconfigurations:\n- name: evil.code:run\n",
    ],
)
def test_code_that_the_scheduler_does_not_use_is_not_loaded(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A viewer must not run code in the dashboard's process by naming it."""
    (tmp_path / "evil").mkdir()
    (tmp_path / "evil" / "__init__.py").write_text("")
    (tmp_path / "evil" / "code.py").write_text("raise SystemExit('loaded')")
    monkeypatch.syspath_prepend(str(tmp_path))
    (problem,) = check(text, PRESENT).problems
    assert "it is not loaded here" in problem.text
    assert "evil.code" not in sys.modules


def test_code_that_the_scheduler_uses_is_loaded() -> None:
    present = parse(f"actions: allocate\ntiers:\n- plugins:\n  - name: {OWN}\n")
    assert check(present.text, present).config is not None
    assert check(present.text, PRESENT).config is None


def test_a_text_without_end_is_not_read() -> None:
    (problem,) = check("#" * (LONGEST + 1), PRESENT).problems
    assert "characters" in problem.text


def test_plugins_are_listed_by_tier_with_arguments_and_hooks_that_are_off() -> None:
    text = (
        "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n- plugins:\n  - name: binpack\n"
        "    enableNodeOrder: false\n    arguments:\n      binpack.weight: 5\n"
    )
    first, second = plugin_rows(parse(text))
    assert (first.tier, first.name, first.arguments) == (1, "gang", "")
    assert (second.tier, second.name, second.arguments) == (2, "binpack", "binpack.weight: 5")
    assert second.disabled
