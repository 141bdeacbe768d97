"""`volcano config`: all errors of a file at once, and presets by name."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cmd.test_volcano import Shown, say
from volcano.cli.volcano.configuration import read
from volcano.scheduler.engine.config import PRESETS, ConfigError, parse, shipped

__all__ = ["say"]

WRONG = """\
actions: "enqueue, alocate, backfil"
tiers:
- plugins:
  - name: gagn
  - name: gang
    enablePreemptable: maybe
  - {}
- plugins: gang
configurations: 5
"""


def test_all_errors_of_a_file_are_reported_in_the_order_of_lines(
    tmp_path: Path, say: Callable[..., Shown]
) -> None:
    path = tmp_path / "wrong.conf"
    path.write_text(WRONG)
    shown = say("config", "validate", str(path))
    assert shown.code == 1
    lines = [line.removeprefix(f"{path}:") for line in shown.err.splitlines()]
    assert [line.split(":")[0] for line in lines[:-1]] == ["1", "1", "4", "6", "7", "8", "9"]
    assert lines[-1] == f"volcano: {path}: 7 errors"
    data = json.loads(say("config", "validate", str(path), "-o", "json").out)
    assert (data["valid"], len(data["errors"])) == (False, 7)
    assert data["errors"][3] == {
        "line": 6,
        "message": "enablePreemptable of gang must be true or false, not str 'maybe'",
    }


def test_the_scheduler_names_every_error_too() -> None:
    with pytest.raises(ConfigError) as error:
        parse(WRONG, "x")
    assert len(error.value.all) == 7
    assert str(error.value).startswith("x:1: ")
    assert "x:8: tiers.1.plugins must be a list" in str(error.value)


def test_a_valid_file_as_data(tmp_path: Path, say: Callable[..., Shown]) -> None:
    path = tmp_path / "right.conf"
    path.write_text('actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n')
    shown = say("config", "validate", str(path), "-o", "json")
    assert shown.code == 0
    assert json.loads(shown.out) == {
        "file": str(path), "valid": True, "errors": [], "warnings": [], "actions": ["allocate"], "plugins": ["gang"],
    }  # fmt: skip


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_shown_validated_and_used_by_name(name: str, say: Callable[..., Shown]) -> None:
    assert say("config", "show", name).out == shipped(PRESETS[name])
    assert say("config", "validate", name).code == 0
    assert read(name) == shipped(PRESETS[name])


def test_names_of_presets_are_listed_and_suggested(say: Callable[..., Shown]) -> None:
    assert [line.split()[0] for line in say("config", "show").out.splitlines()] == list(PRESETS)
    shown = say("config", "show", "preemt")
    assert shown.code == 3
    assert "did you mean 'preempt'?" in shown.err
    assert "did you mean 'preempt'?" in say("config", "validate", "preemt").err
