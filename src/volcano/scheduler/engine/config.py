"""The scheduler's configuration file, in Volcano's format: errors name the line and what would be right."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources as package_files
from typing import Any, TypeVar

from volcano.base.yaml_loader import YamlError, load_yaml
from volcano.scheduler.engine.arguments import Argument, Arguments
from volcano.scheduler.engine.inputs import Input, LoadInput
from volcano.scheduler.engine.load_settings import KEYS as LOAD_KEYS
from volcano.scheduler.engine.load_settings import TYPES as LOAD_TYPES
from volcano.scheduler.engine.load_settings import WITH_ADDRESS, LoadSettings, parse_load_settings
from volcano.scheduler.engine.plugin import Plugin
from volcano.scheduler.engine.plugin_loader import (
    ACTIONS,
    PLUGINS,
    Action,
    LoadedAction,
    LoadError,
    NotProvidedError,
    is_path,
    load_action,
    load_plugin,
    shadowed,
)
from volcano.scheduler.engine.switches import SWITCHES, disabled

AnInput = TypeVar("AnInput", bound=Input)
TOP_LEVEL = ("actions", "tiers", "configurations", "metrics")


class ConfigError(Exception):
    """An invalid configuration: where, what is wrong, and what would be right.

    If there are several errors, it describes all of them, and `all` has one error for each.
    """

    def __init__(self, file: str, line: int, problem: str) -> None:
        super().__init__(f"{file}:{line}: {problem}" if line else f"{file}: {problem}")
        self.file = file
        self.line = line
        self.problem = problem
        self.all: tuple[ConfigError, ...] = (self,)

    @classmethod
    def of(cls, errors: Sequence["ConfigError"]) -> "ConfigError":
        """One error for at least one error, in the order of lines."""
        first, *others = sorted(errors, key=lambda error: error.line)
        if not others:
            return first
        whole = cls(first.file, first.line, "; ".join([first.problem, *map(str, others)]))
        whole.all = (first, *others)
        return whole


@dataclass(frozen=True, slots=True)
class PluginConfig:
    """One plugin of a tier."""

    name: str
    plugin: type[Plugin]
    arguments: Arguments = field(default_factory=Arguments)
    disabled: frozenset[str] = frozenset()  # hooks that are not called


@dataclass(frozen=True, slots=True)
class Config:
    """The configuration of a cycle."""

    actions: tuple[str, ...]
    tiers: tuple[tuple[PluginConfig, ...], ...]
    steps: tuple[Action, ...] = ()  # the actions as functions
    configurations: Mapping[str, Arguments] = field(default_factory=dict)
    load: LoadSettings = field(default_factory=LoadSettings)  # section `metrics`
    warnings: tuple[str, ...] = ()
    # Warnings about plugins and actions of Volcano that are not provided here: the rest of the file is used.
    not_provided: tuple[str, ...] = ()
    text: str = ""
    features: frozenset[str] = frozenset()  # feature gates that are on; set by the program
    # Transports of plugins that call other programs, by plugin.
    ports: Mapping[str, Any] = field(default_factory=dict)

    @property
    def plugins(self) -> Iterator[PluginConfig]:
        """The plugins of all tiers."""
        return (configured for tier in self.tiers for configured in tier)

    @property
    def depends_on_time(self) -> bool:
        """Whether decisions may change although the cluster does not."""
        return any(configured.plugin.depends_on_time for configured in self.plugins)

    @property
    def follows_usage(self) -> bool:
        """Whether a plugin measures what jobs hold over time."""
        return any(configured.plugin.follows_usage for configured in self.plugins)

    def inputs(self, kind: type[AnInput]) -> Iterator[tuple[PluginConfig, AnInput]]:
        """Inputs of one kind that plugins declare, with these plugins."""
        return (
            (configured, declared)
            for configured in self.plugins
            for declared in configured.plugin.inputs
            if isinstance(declared, kind)
        )

    def arguments(self, action: str) -> Arguments:
        """Returns the arguments of an action."""
        return self.configurations.get(action, Arguments())


# Configurations of the package by name: Volcano's default, and one that also preempts and reclaims.
PRESETS = {
    "default": "volcano-scheduler.conf",
    "preempt": "volcano-scheduler-preempt.conf",
    "reservation": "volcano-scheduler-reservation.conf",
}


def shipped(name: str = "volcano-scheduler.conf") -> str:
    """Returns the text of a configuration file of this package."""
    return (package_files.files("volcano.scheduler") / "conf" / name).read_text()


def parse(text: str, file: str = "configuration") -> Config:
    """Parses a configuration. Raises ConfigError with all errors: their lines and what would be right."""
    document = Document(text, file)
    top = document.mapping((), document.value)
    document.warn_unknown((), top, TOP_LEVEL)
    actions = _actions(document, top)
    tiers = tuple(
        _tier(document, ("tiers", i)) for i, _ in enumerate(document.list(("tiers",), top.get("tiers")))
    )
    _check_conflicts(document, tiers)
    configurations = dict(_configurations(document, top, dict(actions)))
    load = _load_settings(document, top)
    _check_uses_of_load(document, tiers, [name for name, _ in actions], load)
    if document.errors:
        raise ConfigError.of(document.errors)
    steps = tuple(action.run for _, action in actions)
    return Config(
        tuple(name for name, _ in actions),
        tiers,
        steps,
        configurations,
        load,
        tuple(document.warnings),
        tuple(document.not_provided),
        text,
    )


class Document:
    """A YAML text with the line of each of its values."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.warnings: list[str] = []
        self.not_provided: list[str] = []
        self.errors: list[ConfigError] = []
        try:
            loaded = load_yaml(text, lines=True)
        except YamlError as error:
            raise ConfigError(file, error.line, f"this is not YAML: {error.problem}") from None
        for line, key in loaded.duplicates:
            self.errors.append(ConfigError(file, line, f"{key!r} is there twice; leave one of them out"))
        self.value: Any = loaded.value
        self._lines = loaded.lines

    def reject(self, path: tuple[Any, ...], problem: str) -> None:
        """Records an error; the rest of the file is still checked."""
        self.errors.append(ConfigError(self.file, self.line(path), problem))

    def warn(self, path: tuple[Any, ...], problem: str) -> None:
        self.warnings.append(f"{self.file}:{self.line(path)}: {problem}")

    def skip(self, path: tuple[Any, ...], error: NotProvidedError) -> None:
        """Warns about a name of Volcano that is skipped."""
        self.warn(path, str(error))
        self.not_provided.append(self.warnings[-1])

    def line(self, path: tuple[Any, ...]) -> int:
        """Returns the line of the value at a path, or of its nearest parent."""
        while path not in self._lines and path:
            path = path[:-1]
        return self._lines.get(path, 1)

    def at(self, path: tuple[Any, ...]) -> Any:
        value = self.value
        for step in path:
            value = value[step]
        return value

    def mapping(self, path: tuple[Any, ...], value: Any) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            where = ".".join(map(str, path)) or "the file"
            self.reject(path, f"{where} must be a map of names to values, not {_kind(value)}")
            return {}
        return value

    def list(self, path: tuple[Any, ...], value: Any) -> list[Any]:
        if value is None:
            return []
        if not isinstance(value, list):
            self.reject(path, f"{'.'.join(map(str, path))} must be a list, not {_kind(value)}")
            return []
        return value

    def warn_unknown(self, path: tuple[Any, ...], value: Mapping[str, Any], known: Iterable[str]) -> None:
        for name in value:
            if name not in known:
                self.warn((*path, name), f"{name!r} is not known and has no effect")


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {value!r}"


def _actions(document: Document, top: Mapping[str, Any]) -> list[tuple[str, LoadedAction]]:
    text = top.get("actions")
    if not isinstance(text, str) or not text.strip():
        document.reject(
            ("actions",),
            f'actions must name at least one action, such as "enqueue, allocate, backfill", not {_kind(text)}',
        )
        return []
    actions: list[tuple[str, LoadedAction]] = []
    rejected = len(document.errors)
    for name in (part.strip() for part in text.split(",")):
        try:
            actions.append((name, load_action(name)))
        except NotProvidedError as error:
            document.skip(("actions",), error)
        except LoadError as error:
            document.reject(("actions",), str(error))
        if warning := shadowed(ACTIONS, name):
            document.warn(("actions",), warning)
    if not actions and len(document.errors) == rejected:
        document.reject(("actions",), f"actions names none that is provided: {text}")
    return actions


def _tier(document: Document, path: tuple[Any, ...]) -> tuple[PluginConfig, ...]:
    tier = document.mapping(path, document.at(path))
    document.warn_unknown(path, tier, ("plugins", "name"))
    plugins = document.list((*path, "plugins"), tier.get("plugins"))
    found = (_plugin(document, (*path, "plugins", i)) for i, _ in enumerate(plugins))
    return tuple(plugin for plugin in found if plugin is not None)


def _plugin(document: Document, path: tuple[Any, ...]) -> PluginConfig | None:
    """One configured plugin; None for one of Volcano that is not provided."""
    given = document.mapping(path, document.at(path))
    name = given.get("name")
    if not isinstance(name, str):
        document.reject(path, f"a plugin needs a name, such as gang, not {_kind(name)}")
        return None
    try:
        plugin = load_plugin(name)
    except NotProvidedError as error:
        document.skip((*path, "name"), error)
        return None
    except LoadError as error:
        document.reject((*path, "name"), str(error))
        return None
    if warning := shadowed(PLUGINS, name):
        document.warn((*path, "name"), warning)
    document.warn_unknown(path, given, ("name", "arguments", *SWITCHES))
    switches = {}
    for switch in SWITCHES:
        if switch in given:
            if not isinstance(given[switch], bool):
                document.reject(
                    (*path, switch), f"{switch} of {name} must be true or false, not {_kind(given[switch])}"
                )
                continue
            switches[switch] = given[switch]
    values = document.mapping((*path, "arguments"), given.get("arguments") or {})
    _check_arguments(document, (*path, "arguments"), name, values, plugin.arguments)
    arguments = Arguments(values, hierarchy=switches.get("enableHierarchy", False))
    return PluginConfig(name, plugin, arguments, disabled(switches))


def _check_arguments(
    document: Document,
    path: tuple[Any, ...],
    owner: str,
    values: Mapping[str, Any],
    known: tuple[Argument, ...],
) -> None:
    for name, value in values.items():
        argument = next((argument for argument in known if argument.matches(str(name))), None)
        if argument is None:
            document.warn((*path, name), f"{owner} has no argument {name!r}; it has no effect")
            continue
        findings = list(argument.findings(value))
        for finding in findings:
            where = ".".join(map(str, (name, *finding.path)))
            report = document.warn if finding.is_warning else document.reject
            report((*path, name, *finding.path), f"{where} of {owner} {finding.problem}")
        if not findings and argument.warning is not None and (text := argument.warning(values)):
            document.warn((*path, name), f"{owner}: {text}")
    given = Arguments(values)
    for argument in known:
        for other in argument.excludes:
            if given.boolean(argument.name) and given.boolean(other):
                document.reject(
                    (*path, argument.name),
                    f"{argument.name} and {other} of {owner} cannot both be true; leave one of them out",
                )


def _configurations(
    document: Document, top: Mapping[str, Any], actions: Mapping[str, LoadedAction]
) -> Iterator[tuple[str, Arguments]]:
    for i, item in enumerate(document.list(("configurations",), top.get("configurations"))):
        path = ("configurations", i)
        given = document.mapping(path, item)
        name = str(given.get("name", ""))
        values = document.mapping((*path, "arguments"), given.get("arguments") or {})
        try:
            action = actions.get(name) or (None if is_path(name) else load_action(name))
        except LoadError:
            document.warn(path, f"{name!r} is no action; its arguments have no effect")
        else:
            if action is not None and action.arguments is not None:
                _check_arguments(document, (*path, "arguments"), name, values, action.arguments)
        yield name, Arguments(values)


def _load_settings(document: Document, top: Mapping[str, Any]) -> LoadSettings:
    values = document.mapping(("metrics",), top.get("metrics") or {})
    rejected = len(document.errors)
    _check_arguments(document, ("metrics",), "metrics", values, LOAD_KEYS)
    if len(document.errors) > rejected:
        return LoadSettings()
    settings = parse_load_settings(values)
    if settings.type in WITH_ADDRESS and not settings.address:
        document.reject(("metrics", "type"), f"metrics of type {settings.type} need an address")
    return settings


def _check_uses_of_load(
    document: Document,
    tiers: tuple[tuple[PluginConfig, ...], ...],
    actions: Sequence[str],
    load: LoadSettings,
) -> None:
    """Warns about plugins that have no effect without another part of the configuration."""
    for i, tier in enumerate(tiers):
        for j, plugin in enumerate(tier):
            path = ("tiers", i, "plugins", j)
            if LoadInput() in plugin.plugin.inputs and not load.type:
                types = ", ".join(LOAD_TYPES)
                document.warn(
                    path, f"{plugin.name} has no effect without metrics.type, which is one of {types}"
                )
            if plugin.name == "rescheduling" and "shuffle" not in actions:
                document.warn(path, "rescheduling has no effect without the action shuffle")


def _check_conflicts(document: Document, tiers: tuple[tuple[PluginConfig, ...], ...]) -> None:
    places = {plugin.name: (i, j) for i, tier in enumerate(tiers) for j, plugin in enumerate(tier)}
    if "proportion" in places and "capacity" in places:
        first, second = sorted((places["proportion"], places["capacity"]))
        line = document.line(("tiers", first[0], "plugins", first[1]))
        document.reject(
            ("tiers", second[0], "plugins", second[1]),
            "proportion and capacity cannot be used together: each computes the shares of all queues, by weight or by "
            f"deserved, and would evict pods that the other protects; remove one of them (the other is in line {line})",
        )
    for i, tier in enumerate(tiers):
        hierarchical = any(plugin.name == "drf" and plugin.arguments.hierarchy for plugin in tier)
        if hierarchical and any(plugin.name == "proportion" for plugin in tier):
            document.reject(
                ("tiers", i),
                "proportion and drf with hierarchy enabled conflicts; leave one of them out of this tier",
            )
