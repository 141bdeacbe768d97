"""Rules for every plugin: it loads by name, documents itself, and its arguments are in the user guide."""

import ast
from pathlib import Path

import pytest

import volcano.scheduler.plugins
from tests.builders import job, node
from tests.scenario import config, schedule, session
from volcano.scheduler.engine.arguments import Arguments, Type
from volcano.scheduler.engine.config import ConfigError
from volcano.scheduler.engine.plugin import Plugin
from volcano.scheduler.engine.plugin_loader import NOT_PROVIDED, PLUGINS, built_in_plugins, load_plugin

BUILT_IN = built_in_plugins()
GUIDE = Path(__file__).parents[3] / "docs" / "plugins" / "README.md"
FOLDER = Path(volcano.scheduler.plugins.__file__).parent


def test_the_plugins_are_found() -> None:
    assert BUILT_IN == [
        "binpack", "capacity", "cdp", "conformance", "deviceshare", "drf", "extender", "fairshare", "fragmentation",
        "gang", "network-topology-aware", "nodegroup", "nodeorder", "numa-aware", "overcommit",
        "pdb", "predicates", "priority", "proportion", "rescheduling", "reservation", "resource-strategy-fit",
        "resourcequota", "sla", "task-topology", "tdm", "usage",
    ]  # fmt: skip


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_plugin_is_found_by_its_name(name: str) -> None:
    plugin = load_plugin(name)
    assert issubclass(plugin, Plugin)
    assert plugin.__module__.startswith(f"volcano.scheduler.plugins.{name.replace('-', '_')}")


@pytest.mark.parametrize("name", sorted(NOT_PROVIDED[PLUGINS]))
def test_a_plugin_of_volcano_that_does_not_exist_here_is_skipped(name: str) -> None:
    parsed = config(["gang", name])
    assert [plugin.name for tier in parsed.tiers for plugin in tier] == ["gang"]
    assert name in parsed.not_provided[0]


# The plugins of Volcano at the version that parity is measured against.
VOLCANO = [
    "binpack", "capacity", "cdp", "conformance", "deviceshare", "drf", "extender", "gang", "network-topology-aware",
    "nodegroup", "nodeorder", "numa-aware", "overcommit", "pdb", "predicates", "priority", "proportion", "rescheduling",
    "resource-strategy-fit", "resourcequota", "sla", "task-topology", "tdm", "usage",
]  # fmt: skip


def test_every_plugin_of_volcano_is_provided_or_known_as_not_provided() -> None:
    assert set(VOLCANO) <= {*BUILT_IN, *NOT_PROVIDED[PLUGINS]}
    assert NOT_PROVIDED[PLUGINS].isdisjoint(BUILT_IN)


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_plugin_and_its_arguments_are_in_the_user_guide(name: str) -> None:
    guide = GUIDE.read_text()
    assert f"`{name}`" in guide
    for argument in load_plugin(name).arguments:
        stem = argument.name.removesuffix("*").rstrip(".")
        documented = {
            "predicates": "predicate.<name>Enable",
            "extender": "extender.<hook>Verb",
        }.get(name, stem)
        assert stem in guide or documented in guide, argument.name


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_docstring_of_a_plugin_starts_with_its_name(name: str) -> None:
    path = FOLDER / name.replace("-", "_")
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    first = (ast.get_docstring(ast.parse(source.read_text())) or "").splitlines()[0]
    assert first.startswith(f"{name}: ")


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_plugin_alone_schedules_a_plain_job(name: str) -> None:
    result = schedule(nodes=[node("n1", cpu=4)], jobs=[job("plain", 2, phase="Pending")], plugins=[name])
    open_to_all = name not in ("nodegroup",)  # its queues have to name their nodes
    assert len(result.bound()) == (2 if open_to_all else 0)
    assert result.outcome.faults == {}


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_plugin_alone_works_in_an_empty_cluster(name: str) -> None:
    made = session(plugins=[name])
    made.policy.plugins[0].open(Arguments())
    made.close()
    assert (made.memory, made.errors) == ({}, [])


@pytest.mark.parametrize("name", [name for name in BUILT_IN if load_plugin(name).arguments])
def test_arguments_of_the_wrong_type_are_rejected(name: str) -> None:
    argument = next((each for each in load_plugin(name).arguments if each.type is not Type.ANY), None)
    assert argument is not None
    wrong: object = {Type.TEXT: 7, Type.BOOLEAN: "perhaps", Type.LIST: "a"}.get(argument.type, "seven")
    with pytest.raises(ConfigError, match="must be"):
        config([{"name": name, "arguments": {argument.name.replace("*", "x"): wrong}}])
