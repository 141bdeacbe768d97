"""The scheduler's configuration: what it says, and whether a text is valid."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from volcano.scheduler.engine.config import Config, ConfigError, Document, parse
from volcano.scheduler.engine.plugin_loader import is_path

FILE = "configuration"
LONGEST = 1_000_000  # characters of a configuration; the API server stores less


@dataclass(frozen=True, slots=True)
class Problem:
    """One error of a text."""

    line: int  # 0: of the whole text
    text: str


@dataclass(frozen=True, slots=True)
class Checked:
    """A text that was checked; without problems it has a configuration."""

    config: Config | None = None
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PluginRow:
    """One plugin of a configuration."""

    tier: int
    name: str
    arguments: str
    disabled: str  # hooks that are not called


def check(text: str, present: Config) -> Checked:
    """Checks a text that a viewer wrote. Code that the present configuration does not use is not loaded: plugins and
    actions may be named as Python modules, and to load one is to run it."""
    if len(text) > LONGEST:
        return Checked(problems=(Problem(0, f"the text has more than {LONGEST:,} characters"),))
    try:
        foreign = tuple(_foreign(Document(text, FILE), present))
        if foreign:
            return Checked(problems=foreign)
        config = parse(text, FILE)
    except ConfigError as error:
        return Checked(problems=tuple(Problem(each.line, each.problem) for each in error.all))
    return Checked(config, warnings=tuple(each.removeprefix(f"{FILE}:") for each in config.warnings))


def plugin_rows(config: Config) -> tuple[PluginRow, ...]:
    return tuple(
        PluginRow(
            place + 1,
            plugin.name,
            ", ".join(f"{name}: {value}" for name, value in plugin.arguments.values.items()),
            ", ".join(sorted(plugin.disabled)),
        )
        for place, tier in enumerate(config.tiers)
        for plugin in tier
    )


def _foreign(document: Document, present: Config) -> Iterator[Problem]:
    """Names of Python code that the present configuration does not use."""
    known = {*present.actions, *(plugin.name for tier in present.tiers for plugin in tier)}
    for path, name in _names(document.value):
        if is_path(name) and name not in known:
            text = f"{name!r} is code that the scheduler's configuration does not use; it is not loaded here"
            yield Problem(document.line(path), f"{text}, `volcano config plan` loads it")


def _names(value: Any) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Names of actions and plugins with their paths; what is malformed is left to the parser."""
    top = value if isinstance(value, dict) else {}
    actions, tiers, more = top.get("actions"), top.get("tiers"), top.get("configurations")
    for name in actions.split(",") if isinstance(actions, str) else ():
        yield ("actions",), name.strip()
    for index, tier in enumerate(tiers if isinstance(tiers, list) else ()):
        plugins = tier.get("plugins") if isinstance(tier, dict) else None
        for place, plugin in enumerate(plugins if isinstance(plugins, list) else ()):
            if isinstance(plugin, dict) and isinstance(plugin.get("name"), str):
                yield ("tiers", index, "plugins", place, "name"), plugin["name"]
    for index, each in enumerate(more if isinstance(more, list) else ()):
        if isinstance(each, dict) and isinstance(each.get("name"), str):
            yield ("configurations", index), each["name"]
