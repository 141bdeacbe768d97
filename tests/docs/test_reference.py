"""Generated reference pages are complete: every name in the code has a row, and every row a name in the code."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import volcano
from tools.docs import annotations, events
from tools.docs.pages import PAGES
from volcano.cli.commands import HIDDEN, SLURM, VCCTL
from volcano.scheduler.engine.plugin_loader import built_in_actions, built_in_plugins

SOURCE = Path(volcano.__file__).parent
NAME = re.compile(r"([a-z-]+\.)*volcano\.sh/[A-Za-z-]+")
# Functions that record an event: the reason is the first argument in CamelCase.
RECORDING = {
    "record_event", "once", "job_event", "EventText", "normal", "warn",
    "_record_event", "_event", "_normal", "_warning",
}  # fmt: skip
REASON = re.compile(r"[A-Z][a-z]+([A-Z][a-z]+)*")
NOT_A_REASON = {"Closing", "False", "True", "Normal", "Open", "PodScheduled", "Replace", "Warning"}


def trees() -> Iterator[ast.Module]:
    return (ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py")))


def constants() -> set[str]:
    return {
        node.value
        for tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def recorded_reasons() -> set[str]:
    """Literal reasons of events in calls of recording functions."""
    return {
        argument.value
        for tree in trees()
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and (call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", ""))
        in RECORDING
        for argument in call.args
        if isinstance(argument, ast.Constant)
        and isinstance(argument.value, str)
        and REASON.fullmatch(argument.value)
    }


def test_every_annotation_of_the_code_is_documented_and_no_other() -> None:
    assert {name.name for name in annotations.NAMES} == {text for text in constants() if NAME.fullmatch(text)}


def test_every_event_of_the_code_is_documented() -> None:
    assert recorded_reasons() - NOT_A_REASON - {row[0] for row in events.EVENTS} == set()


def test_every_documented_event_exists() -> None:
    known = constants()
    assert [row[0] for row in events.EVENTS if row[0] not in known] == []


def test_every_command_has_a_section() -> None:
    page = PAGES["reference/vcctl.md"]()
    wanted = [f"vcctl {command.words}" for command in VCCTL if command.help != HIDDEN]
    assert [words for words in [*wanted, *SLURM] if f"## {words}\n" not in page] == []


def test_every_plugin_and_action_has_a_row() -> None:
    page = PAGES["reference/configuration.md"]()
    assert [name for name in [*built_in_plugins(), *built_in_actions()] if f"| `{name}` | " not in page] == []


@pytest.mark.parametrize(
    "name", ["volcano_queue_share", "volcano_schedule_attempts", "apiserver_request_total"]
)
def test_metrics_are_read_from_a_running_cluster(name: str, metrics: str) -> None:
    assert f"| `{name}" in metrics


@pytest.fixture(scope="module")
def metrics() -> str:
    return PAGES["reference/metrics.md"]()


def test_every_field_of_a_definition_has_a_meaning() -> None:
    rows = [line for line in PAGES["reference/crds.md"]().splitlines() if line.startswith("| `")]
    assert len(rows) > 200
    assert [row for row in rows if row.endswith("|  |")] == []
