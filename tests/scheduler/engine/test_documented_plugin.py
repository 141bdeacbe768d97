"""The example of docs/plugins.md works exactly as printed: one file for the plugin and one test."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import volcano.scheduler.plugins
from tests.scenario import config
from volcano.scheduler.engine.config import ConfigError

GUIDE = Path(__file__).parents[3] / "docs" / "plugins.md"
PLUGIN, TEST = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
MODULE = "volcano.scheduler.plugins.quiet_nodes"


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory that is part of the plugins package."""
    package = volcano.scheduler.plugins
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    yield tmp_path
    sys.modules.pop(MODULE, None)


def test_the_documented_plugin_works_with_the_documented_test(plugins: Path) -> None:
    (plugins / "quiet_nodes.py").write_text(PLUGIN)
    scope: dict[str, object] = {}
    exec(compile(TEST, str(GUIDE), "exec"), scope)
    (test,) = (value for name, value in scope.items() if name.startswith("test_") and callable(value))
    test()


def test_the_documented_test_needs_the_plugin(plugins: Path) -> None:
    with pytest.raises(ConfigError, match="unknown plugin 'quiet-nodes'"):
        config(["quiet-nodes"])


def test_a_misspelt_hook_of_the_documented_plugin_is_rejected_with_the_nearest_match(plugins: Path) -> None:
    (plugins / "quiet_nodes.py").write_text(PLUGIN.replace("def score_nodes", "def score_node"))
    with pytest.raises(ConfigError) as raised:
        config(["quiet-nodes"])
    message = "QuietNodes.score_node is not a hook; did you mean score_nodes?"
    assert message in str(raised.value)
    assert message in GUIDE.read_text()
