"""Plugins and actions are found by one file or by an entry point, and checked when they are loaded."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import volcano.scheduler.actions
import volcano.scheduler.plugins
from tests.builders import job, node
from tests.scenario import config, schedule
from volcano.model.task import Task
from volcano.scheduler.engine.config import ConfigError
from volcano.scheduler.engine.plugin import Plugin

HERE = __name__
PLUGIN = '''"""{name}: rejects every node."""

import numpy as np

from volcano.scheduler.engine.plugin import Plugin
from volcano.scheduler.engine.answers import RejectedNodes


class Closed(Plugin):
    def reject_nodes(self, task, nodes):
        yield RejectedNodes(np.ones(len(nodes), dtype=np.bool_), "node(s) were closed")
'''
ACTION = '''"""{name}: an action that admits every job."""


def {name}(session):
    for job in session.active_jobs():
        session.ledger.set_phase(job, "Inqueue")
'''


class Misspelt(Plugin):
    def score_node(self, task: Task) -> None:
        """A hook with a missing letter."""


class MisspeltBelow(Misspelt):
    """Inherits it."""


class WithHelper(Plugin):
    def completely_different(self) -> None:
        """Not a hook."""


class WithStaticHelper(Plugin):
    @staticmethod
    def reject_node() -> None:
        """Not a hook."""


class Proper(Plugin):
    """Attributes, properties and private methods are no hooks."""

    limit = 3
    Table = dict

    @property
    def total(self) -> int:
        return self._helper()

    def _helper(self) -> int:
        return 7


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory that is part of the plugins package."""
    yield from extended(volcano.scheduler.plugins, tmp_path, monkeypatch)


@pytest.fixture
def actions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory that is part of the actions package."""
    yield from extended(volcano.scheduler.actions, tmp_path, monkeypatch)


def extended(package: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
    yield folder
    for path in folder.glob("*.py"):
        sys.modules.pop(f"{package.__name__}.{path.stem}", None)


def run(*plugins: str, actions: tuple[str, ...] = ("enqueue", "allocate")) -> dict[str, str]:
    return schedule(
        nodes=[node("n1")], jobs=[job("j", 1, phase="Pending")], plugins=[*plugins], actions=actions
    ).bound()


def distribution(folder: Path, name: str, entry_points: str, **modules: str) -> None:
    """An installed distribution, as pip leaves it."""
    info = folder / f"{name.replace('-', '_')}-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(entry_points)
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(text)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


# -- one file ------------------------------------------------------------------------------------


def test_one_file_in_the_plugins_package_is_a_plugin(plugins: Path) -> None:
    (plugins / "closed_for_tests.py").write_text(PLUGIN.format(name="closed-for-tests"))
    assert run("gang") == {"j-worker-0": "n1"}
    assert run("gang", "closed-for-tests") == {}
    with pytest.raises(
        ConfigError, match="choose from binpack, capacity, cdp, closed-for-tests, conformance"
    ):
        config(["closed"])


def test_one_file_in_the_actions_package_is_an_action(actions: Path) -> None:
    (actions / "admitall.py").write_text(
        "from volcano.scheduler.engine.arguments import Argument\n"
        'ARGUMENTS = (Argument("most"),)\n' + ACTION.format(name="admitall")
    )
    (actions / "admithelper.py").write_text('"""Shared code, no action."""')
    assert run("gang", actions=("admitall", "allocate")) == {"j-worker-0": "n1"}
    with pytest.raises(ConfigError, match="most of admitall is 'x'; it must be an integer"):
        config(["gang"], actions=("admitall",), configurations={"admitall": {"most": "x"}})
    with pytest.raises(ConfigError, match=r"unknown action 'admithelper'; .* admitall, allocate,"):
        config(["gang"], actions=("admithelper",))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("1 / 0", "plugin 'odd' cannot be loaded: division by zero", id="fails on import"),
        pytest.param(
            "", "must be one Plugin subclass in volcano.scheduler.plugins.odd; it has none", id="no class"
        ),
        pytest.param(
            "from volcano.scheduler.engine.plugin import Plugin\n"
            "class A(Plugin): ...\nclass B(Plugin): ...\nclass _Base(Plugin): ...",
            "it has A, B",
            id="two classes",
        ),
    ],
)
def test_a_file_that_is_no_plugin_is_rejected(plugins: Path, text: str, problem: str) -> None:
    (plugins / "odd.py").write_text(text)
    with pytest.raises(ConfigError, match=problem):
        config(["odd"])


def test_only_configured_plugins_are_imported() -> None:
    program = (
        "import sys; from volcano.scheduler.engine.config import parse;"
        "parse('actions: allocate\\ntiers:\\n- plugins:\\n  - name: gang');"
        "print(*sorted(name for name in sys.modules if name.startswith('volcano.scheduler.plugins.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["volcano.scheduler.plugins.gang"]


# -- hooks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plugin", "problem"),
    [
        ("Misspelt", r"Misspelt.score_node is not a hook; did you mean score_nodes\?"),
        ("MisspeltBelow", r"Misspelt.score_node is not a hook; did you mean score_nodes\?"),
        ("WithStaticHelper", r"WithStaticHelper.reject_node is not a hook; did you mean reject_nodes\?"),
        ("WithHelper", "completely_different is not a hook; start the name of a helper with an underscore"),
    ],
)
def test_public_methods_that_are_no_hooks_are_rejected(plugin: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as raised:
        config([f"{HERE}:{plugin}"])
    assert raised.value.line == 4


def test_attributes_and_private_methods_are_no_hooks() -> None:
    assert config([f"{HERE}:Proper"]).tiers[0][0].plugin is Proper


# -- entry points --------------------------------------------------------------------------------


def test_plugins_and_actions_of_installed_distributions_are_found(site: Path) -> None:
    distribution(
        site,
        "acme-scheduling",
        "[volcano.scheduler.plugins]\nacme-closed = acme_plugin:Closed\n"
        "[volcano.scheduler.actions]\nacmeadmit = acme_action:acmeadmit\n",
        acme_plugin=PLUGIN.format(name="acme-closed"),
        acme_action=ACTION.format(name="acmeadmit"),
    )
    assert run("gang", actions=("acmeadmit", "allocate")) == {"j-worker-0": "n1"}
    assert run("gang", "acme-closed", actions=("acmeadmit", "allocate")) == {}
    made = config(["acme-closed"], actions=("acmeadmit",), configurations={"acmeadmit": {"most": 3}})
    assert made.warnings == ()
    assert made.arguments("acmeadmit").integer("most") == 3
    with pytest.raises(ConfigError, match="choose from acme-closed, binpack"):
        config(["acme"])
    with pytest.raises(ConfigError, match="did you mean acmeadmit\\? It can be acmeadmit, allocate"):
        config(["gang"], actions=("acme",))


def test_an_entry_point_provides_an_action_of_volcano_that_does_not_exist_here(site: Path) -> None:
    distribution(
        site,
        "acme-elect",
        "[volcano.scheduler.actions]\nelect = acme_elect:elect\n",
        acme_elect=ACTION.format(name="elect"),
    )
    assert run("gang", actions=("elect", "allocate")) == {"j-worker-0": "n1"}


def test_a_built_in_name_wins_with_a_warning_that_names_both(site: Path) -> None:
    distribution(
        site,
        "acme-gang",
        "[volcano.scheduler.plugins]\ngang = acme_gang:Closed\n"
        "[volcano.scheduler.actions]\nallocate = acme_gang:allocate\n",
    )
    made = config(["gang"], actions=("allocate",))
    assert made.tiers[0][0].plugin.__module__ == "volcano.scheduler.plugins.gang"
    assert made.warnings == (
        "test.conf:1: action 'allocate' is built in; that of acme-gang 1.2 (acme_gang:allocate) has no effect, "
        "name it as acme_gang:allocate to use it",
        "test.conf:4: plugin 'gang' is built in; that of acme-gang 1.2 (acme_gang:Closed) has no effect, "
        "name it as acme_gang:Closed to use it",
    )


def test_two_distributions_with_the_same_name_are_an_error_that_names_both(site: Path) -> None:
    for name in ("acme-one", "acme-two"):
        module = name.replace("-", "_")
        distribution(site, name, f"[volcano.scheduler.plugins]\nquiet = {module}:Quiet\n")
    with pytest.raises(ConfigError) as raised:
        config(["quiet"])
    assert "plugin 'quiet' is offered by" in str(raised.value)
    assert "acme-one 1.2 (acme_one:Quiet)" in str(raised.value)
    assert "acme-two 1.2 (acme_two:Quiet)" in str(raised.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("raise OSError('no licence')", "cannot be loaded: no licence", id="fails on import"),
        pytest.param("Closed = 3", "is not a Plugin subclass", id="no plugin"),
        pytest.param("", "cannot be loaded: {module} has no Closed", id="no such class"),
        pytest.param(
            "from volcano.scheduler.engine.plugin import Plugin\n"
            "class Closed(Plugin):\n    def job_orders(self, job): ...",
            "did you mean job_order?",
            id="misspelt hook",
        ),
    ],
)
def test_a_broken_entry_point_is_an_error_with_its_distribution(
    site: Path, request: pytest.FixtureRequest, text: str, problem: str
) -> None:
    module = f"acme_broken_{request.node.callspec.id.replace(' ', '_')}"
    distribution(
        site,
        "acme-broken",
        f"[volcano.scheduler.plugins]\nbroken = {module}:Closed\n",
        **{module: text},
    )
    with pytest.raises(ConfigError) as raised:
        config(["broken"])
    assert problem.format(module=module) in str(raised.value)
    assert "test.conf:4: plugin 'broken'" in str(raised.value)
    assert f"acme-broken 1.2 ({module}:Closed)" in str(raised.value)
