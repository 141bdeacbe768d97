"""The examples of docs/plugins.md work exactly as printed: one file for the plugin and one test."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import volcano.plugin
import volcano.scheduler.plugins
from tests.scenario import config, session
from tools.docs.plugin_hooks import GROUPS, PAGE, with_table
from volcano.scheduler.engine.config import ConfigError
from volcano.scheduler.engine.plugin import HOOKS

BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
# Plugin and test by the name at the beginning of the plugin.
EXAMPLES = {
    plugin.removeprefix('"""').partition(":")[0]: (plugin, test)
    for plugin, test in zip(BLOCKS[::2], BLOCKS[1::2], strict=True)
}
PLUGIN, TEST = EXAMPLES["quiet-nodes"]
# The imports of the first example in the release before `volcano.plugin`.
EARLIER_IMPORTS = """
from volcano.model.resources import CPU, Vector
from volcano.model.task import Task
from volcano.scheduler.engine.arguments import Argument, Arguments
from volcano.scheduler.engine.node_table import NodeTable
from volcano.scheduler.engine.plugin import Plugin, RejectedNodes
"""
REMEMBERING = """
    def remember(self) -> object:
        return {"weight": self.weight}
"""


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory that is part of the plugins package."""
    package = volcano.scheduler.plugins
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    yield tmp_path
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(f"{package.__name__}.{path.stem}", None)


def run(test: str) -> None:
    scope: dict[str, Any] = {}
    exec(compile(test, str(PAGE), "exec"), scope)
    (function,) = (value for name, value in scope.items() if name.startswith("test_") and callable(value))
    function()


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_documented_plugin_works_with_its_documented_test(name: str, plugins: Path) -> None:
    plugin, test = EXAMPLES[name]
    (plugins / f"{name.replace('-', '_')}.py").write_text(plugin)
    run(test)


def test_there_are_examples_of_an_order_a_quota_a_reservation_and_victims() -> None:
    assert set(EXAMPLES) == {"quiet-nodes", "small-first", "pod-quota", "tokens", "spot"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_documented_test_needs_its_plugin(name: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown plugin '{name}'"):
        config([name])


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_import_from_the_public_module_only(name: str) -> None:
    assert set(re.findall(r"^from (volcano\S*) import", EXAMPLES[name][0], re.MULTILINE)) == {
        "volcano.plugin"
    }


def test_public_names_are_listed() -> None:
    public = {name for name, value in vars(volcano.plugin).items() if not name.startswith("_")}
    assert set(volcano.plugin.__all__) == public


def test_a_misspelt_hook_of_the_documented_plugin_is_rejected_with_the_nearest_match(plugins: Path) -> None:
    (plugins / "quiet_nodes.py").write_text(PLUGIN.replace("def score_nodes", "def score_node"))
    with pytest.raises(ConfigError) as raised:
        config(["quiet-nodes"])
    message = "QuietNodes.score_node is not a hook; did you mean score_nodes?"
    assert message in str(raised.value)
    assert message in PAGE.read_text()


def test_a_plugin_of_the_release_before_works_with_a_warning(plugins: Path) -> None:
    earlier = re.sub(r"^from volcano\.plugin import .*$", EARLIER_IMPORTS, PLUGIN, flags=re.MULTILINE)
    assert earlier != PLUGIN
    (plugins / "quiet_nodes.py").write_text(earlier)
    with pytest.warns(DeprecationWarning, match="import it from volcano.plugin"):
        run(TEST)


def test_state_without_a_time_is_kept_with_a_warning_and_asks_for_cycles(plugins: Path) -> None:
    (plugins / "quiet_nodes.py").write_text(PLUGIN.rstrip() + "\n" + REMEMBERING)
    made = session(plugins=["quiet-nodes"])
    with pytest.warns(DeprecationWarning, match="return volcano.plugin.Memory"):
        made.close()
    assert made.memory["quiet-nodes"].state == {"weight": 1}
    assert made.memory["quiet-nodes"].due == made.snapshot.now


def test_the_table_of_hooks_is_current() -> None:
    """Written by `python -m tools.docs.plugin_hooks`."""
    page = PAGE.read_text()
    assert with_table(page) == page
    assert {hook for hooks in GROUPS.values() for hook in hooks} == HOOKS
