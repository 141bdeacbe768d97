"""The configuration file: what is accepted, what gives a warning, and what is rejected with its line."""

from pathlib import Path

import pytest

from volcano.base.clock import VirtualClock
from volcano.scheduler.config_source import ConfigSource, FileSource
from volcano.scheduler.engine.config import ConfigError, parse, shipped
from volcano.scheduler.engine.plugin import Plugin
from volcano.scheduler.engine.session import Session

GOOD = """actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
    enablePreemptable: false
  - name: drf
    enableHierarchy: true
configurations:
- name: allocate
  arguments:
    predicateErrorCacheEnable: false
"""


class Outside(Plugin):
    """A plugin of another module."""


def outside(session: Session) -> None:
    """An action of another module."""


def test_a_good_file() -> None:
    config = parse(GOOD)
    gang, drf = config.tiers[0]
    assert config.actions == ("enqueue", "allocate")
    assert gang.disabled == {"preemptable"}
    assert drf.arguments.hierarchy
    assert config.arguments("allocate").boolean("predicateErrorCacheEnable", True) is False


def test_the_default_configuration_and_the_one_that_preempts() -> None:
    usual, preempting = parse(shipped()), parse(shipped("volcano-scheduler-preempt.conf"))
    assert usual.actions == ("enqueue", "allocate", "backfill")
    assert preempting.actions == ("enqueue", "allocate", "preempt", "reclaim", "backfill")
    names = [[plugin.name for plugin in tier] for tier in usual.tiers]
    assert names == [
        ["priority", "gang", "conformance"], ["drf", "predicates", "proportion", "nodeorder", "binpack"],
    ]  # fmt: skip
    assert [[plugin.name for plugin in tier] for tier in preempting.tiers] == names
    assert usual.warnings == preempting.warnings == ()


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        pytest.param("actions: [", 1, "this is not YAML", id="bad YAML"),
        pytest.param("", 1, "must be a map", id="empty file"),
        pytest.param("actions: ''", 1, "at least one action", id="no action"),
        pytest.param(
            "actions: allocate, dance",
            1,
            "unknown action 'dance'; choose from allocate, backfill, enqueue",
            id="action",
        ),
        pytest.param(
            "actions: enqueue, alocate", 1, "unknown action 'alocate'; did you mean allocate?", id="misspelt"
        ),
        pytest.param(
            "actions: elect, reserve", 1, "actions names none that is provided", id="no action is provided"
        ),
        pytest.param(
            "actions: allocate\ntiers:\n- plugins:\n  - name: gong",
            4,
            "unknown plugin 'gong'; did you mean gang?",
            id="plugin",
        ),
        pytest.param(
            "actions: allocate\ntiers:\n- plugins:\n  - name: deviceshar",
            4,
            "unknown plugin 'deviceshar'; did you mean deviceshare?",
            id="a misspelt plugin that is not provided",
        ),
        pytest.param(
            "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n    enableJobOrder: 'yes'",
            5,
            "enableJobOrder of gang must be true or false",
            id="a switch of the wrong type",
        ),
        pytest.param(
            "actions: allocate\ntiers:\n- plugins:\n  - name: binpack\n    arguments:\n      binpack.weight: '10'",
            6,
            "binpack.weight of binpack is '10'; it must be an integer, unquoted",
            id="an argument of the wrong type",
        ),
        pytest.param(
            "actions: allocate\ntiers: gang", 2, "tiers must be a list", id="tiers that are no list"
        ),
        pytest.param(
            "actions: allocate\ntiers:\n- plugins:\n  - name: proportion\n  - {name: drf, enableHierarchy: true}",
            3,
            "proportion and drf with hierarchy enabled conflicts",
            id="two plugins that conflict",
        ),
        pytest.param(
            "actions: allocate\ntiers:\n- plugins:\n  - name: capacity\n- plugins:\n  - name: gang\n"
            "  - name: proportion",
            7,
            "proportion and capacity cannot be used together: each computes the shares of all queues, by weight or by "
            "deserved, and would evict pods that the other protects; remove one of them (the other is in line 4)",
            id="two queue plugins, in different tiers",
        ),
        pytest.param("actions: nowhere:run", 1, "cannot be loaded", id="an action that cannot be imported"),
        pytest.param(
            f"actions: {__name__}:GOOD", 1, "is not a function of a session", id="an action that is none"
        ),
        pytest.param(
            "actions: allocate\ntiers:\n- plugins:\n  - name: this.is.Nothing",
            4,
            "cannot be loaded",
            id="dots",
        ),
        pytest.param(
            "actions: allocate\ntiers: []\nactions: enqueue", 3, "'actions' is there twice", id="a name twice"
        ),
        pytest.param(
            "actions: allocate\ntiers:\n- plugins:\n  - {name: gang, enableJobOrder: true, name: drf}",
            4,
            "'name' is there twice",
            id="a plugin's name twice",
        ),
    ],
)
def test_errors_name_the_line(text: str, line: int, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(text, "x.conf")
    assert raised.value.line == line
    assert problem in str(raised.value)
    assert str(raised.value).startswith(f"x.conf:{line}: ")


def test_actions_of_volcano_that_are_not_provided_are_skipped_with_a_warning() -> None:
    text = "actions: enqueue, elect, allocate\ntiers:\n- plugins:\n  - name: gang\n- plugins:\n  - name: drf"
    config = parse(text, "x.conf")
    assert config.actions == ("enqueue", "allocate")
    assert [[plugin.name for plugin in tier] for tier in config.tiers] == [["gang"], ["drf"]]
    expected = ("x.conf:1: action 'elect' of Volcano is not provided and is skipped",)
    assert config.not_provided == config.warnings == expected


def test_a_source_warns_about_what_is_not_in_effect() -> None:
    source = ConfigSource(GOOD)
    assert source.warning == ""
    assert source.load("actions: allocate, elect\ntiers:\n- plugins:\n  - name: gang")
    assert source.warning == "configuration:1: action 'elect' of Volcano is not provided and is skipped"
    assert not source.load("actions: dance")
    assert "unknown action 'dance'" in source.warning
    assert "the previous configuration is used" in source.warning
    assert "elect" in source.warning


def test_unknown_keys_and_arguments_give_a_warning() -> None:
    text = (
        "actions: allocate\ncolour: red\ntiers:\n- plugins:\n  - name: gang\n    arguments:\n      mood: good"
    )
    config = parse(text, "x.conf")
    assert config.warnings == (
        "x.conf:2: 'colour' is not known and has no effect",
        "x.conf:7: gang has no argument 'mood'; it has no effect",
    )


@pytest.mark.parametrize("dot", [":", "."])
def test_plugins_and_actions_of_other_modules(dot: str) -> None:
    config = parse(
        f"actions: {__name__}{dot}outside\ntiers:\n- plugins:\n  - name: {__name__}{dot}Outside\n"
        f"configurations:\n- name: {__name__}{dot}outside\n  arguments: {{most: 3}}"
    )
    assert config.warnings == ()
    assert config.arguments(f"{__name__}{dot}outside").integer("most", 1) == 3
    assert config.steps == (outside,)
    assert config.tiers[0][0].plugin is Outside


def test_a_plugin_that_cannot_be_imported_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_plugin.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="broken_plugin:Mine' cannot be loaded: division by zero"):
        parse("actions: allocate\ntiers:\n- plugins:\n  - name: broken_plugin:Mine")


def test_actions_that_are_not_available_are_not_offered() -> None:
    with pytest.raises(ConfigError, match="unknown action 'alocate'; did you mean allocate") as raised:
        parse("actions: alocate\ntiers:\n- plugins:\n  - name: gang")
    assert "elect" not in str(raised.value)
    with pytest.raises(
        ConfigError, match="unknown plugin 'gnag'; did you mean gang\\? It can be binpack, capacity"
    ):
        parse("actions: allocate\ntiers:\n- plugins:\n  - name: gnag")


def test_the_last_good_configuration_stays_in_force() -> None:
    source = ConfigSource(GOOD)
    good = source.current
    assert not source.load("actions: dance")
    assert source.current is good
    assert "dance" in source.error
    assert source.load(shipped())
    assert source.error == ""


def test_without_a_good_configuration_there_is_none_in_force() -> None:
    source = ConfigSource("actions: dance")
    assert source.current is None
    assert source.load(GOOD)
    assert source.current is not None


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    source = FileSource(tmp_path / "none.conf")
    assert source.current is None
    assert source.error


async def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    import asyncio
    import os

    path, clock = tmp_path / "x.conf", VirtualClock()
    path.write_text(GOOD)
    source = FileSource(path)
    following = asyncio.create_task(source.watch(clock, lambda: None))
    await asyncio.sleep(0)
    path.write_text(shipped())
    os.utime(path, ns=(1, 1))
    clock.advance(1.5)
    for _ in range(3):
        await asyncio.sleep(0)
    following.cancel()
    assert source.current is not None
    assert source.current.actions == ("enqueue", "allocate", "backfill")
