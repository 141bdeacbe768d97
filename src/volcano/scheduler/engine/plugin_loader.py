"""Finds plugins and actions by name: a file in `plugins/` or `actions/`, an entry point, or `module:Name`."""

import importlib
import importlib.util
import os
import pkgutil
import sys
from collections.abc import Callable
from difflib import get_close_matches
from functools import lru_cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from types import ModuleType
from typing import Any, NamedTuple

from volcano.scheduler.engine.arguments import Argument
from volcano.scheduler.engine.plugin import HOOKS, Plugin

Action = Callable[[Any], None]  # a function of a session

# Packages of the built-in ones, and entry point groups of the others.
PLUGINS = "volcano.scheduler.plugins"
ACTIONS = "volcano.scheduler.actions"
KIND = {PLUGINS: "plugin", ACTIONS: "action"}

# Names of Volcano, of this and earlier versions, that do not exist here: files with them are loaded without them.
NOT_PROVIDED = {
    PLUGINS: frozenset(),
    ACTIONS: frozenset(("elect", "reserve")),
}


class LoadError(Exception):
    """A plugin or action that cannot be loaded; the message has the reason and what would be right."""


class NotProvidedError(LoadError):
    """A plugin or action of Volcano that is not provided here."""

    def __init__(self, group: str, name: str) -> None:
        super().__init__(f"{KIND[group]} {name!r} of Volcano is not provided and is skipped")


class LoadedAction(NamedTuple):
    """An action and the arguments its module declares in `ARGUMENTS`; None when it declares none."""

    run: Action
    arguments: tuple[Argument, ...] | None


def load_plugin(name: str) -> type[Plugin]:
    """Returns the class of a plugin. Raises LoadError."""
    label = f"plugin {name!r}"
    if is_path(name):
        plugin = _from_path(name, _is_plugin, "a Plugin subclass")[1]
    elif (module := _built_in(PLUGINS, name)) is not None:
        plugin = _plugin_of(name, module)
    elif (entry := _entry_point(PLUGINS, name)) is not None:
        label = f"{label} of {_origin(entry)}"
        plugin = _from_entry_point(PLUGINS, entry, _is_plugin, "a Plugin subclass")[1]
    else:
        raise _unknown(PLUGINS, name, built_in_plugins(), "another as module:Class")
    _check_hooks(label, plugin)
    found: type[Plugin] = plugin
    return found


def load_action(name: str) -> LoadedAction:
    """Returns an action, which is a function of a session. Raises LoadError."""
    if is_path(name):
        module, action = _from_path(name, callable, "a function of a session")
        return LoadedAction(action, getattr(module, "ARGUMENTS", None))
    if (found := _built_in_action(name)) is not None:
        return found
    if (entry := _entry_point(ACTIONS, name)) is not None:
        module, action = _from_entry_point(ACTIONS, entry, callable, "a function of a session")
        return LoadedAction(action, getattr(module, "ARGUMENTS", None))
    raise _unknown(ACTIONS, name, built_in_actions(), "one from elsewhere as module:function")


def _unknown(group: str, name: str, built_in: list[str], other: str) -> LoadError:
    """The error for a name that nothing provides, with the nearest known name."""
    if name in NOT_PROVIDED[group]:
        return NotProvidedError(group, name)
    choices = sorted({*built_in, *_entry_points(group).names})
    near = get_close_matches(name, [*choices, *NOT_PROVIDED[group]], n=1)
    hint = f"did you mean {near[0]}? It can be" if near else "choose from"
    return LoadError(f"unknown {KIND[group]} {name!r}; {hint} {', '.join(choices)}, or name {other}")


def shadowed(group: str, name: str) -> str:
    """Returns a warning when entry points offer a name that is built in; the built-in one is used."""
    others = _entry_points(group).select(name=name)
    if not others or is_path(name) or _module_name(group, name) is None:
        return ""
    return (
        f"{KIND[group]} {name!r} is built in; that of {' and '.join(map(_origin, others))} has no effect, "
        f"name it as {next(iter(others)).value} to use it"
    )


def built_in_plugins() -> list[str]:
    """Returns the configured names of the plugins in `plugins/`, without importing them."""
    return _modules_in(PLUGINS)


def built_in_actions() -> list[str]:
    """Returns the names of the actions in `actions/`: modules with a function of their own name."""
    return [name for name in _modules_in(ACTIONS) if _built_in_action(name) is not None]


def _modules_in(group: str) -> list[str]:
    path = importlib.import_module(group).__path__
    names = (module.name for module in pkgutil.iter_modules(path))
    return sorted(name.replace("_", "-") for name in names if not name.startswith("_"))


def _module_name(group: str, name: str) -> str | None:
    """Returns the full name of the built-in module of a plugin or action; None when there is none."""
    short = name.replace("-", "_")
    if "_" in name or not short.isidentifier():
        return None
    full = f"{group}.{short}"
    return full if importlib.util.find_spec(full) is not None else None


def _built_in(group: str, name: str) -> ModuleType | None:
    full = _module_name(group, name)
    return None if full is None else _import(full, f"{KIND[group]} {name!r}")


def _plugin_of(name: str, module: ModuleType) -> type[Plugin]:
    """Returns the one public Plugin subclass that a module, or package, defines itself."""
    classes = [
        each
        for each in vars(module).values()
        if _is_plugin(each)
        and f"{each.__module__}.".startswith(f"{module.__name__}.")
        and not each.__name__.startswith("_")
    ]
    if len(classes) != 1:
        found = ", ".join(each.__name__ for each in classes) or "none"
        raise LoadError(f"plugin {name!r} must be one Plugin subclass in {module.__name__}; it has {found}")
    plugin: type[Plugin] = classes[0]
    return plugin


def _built_in_action(name: str) -> LoadedAction | None:
    module = _built_in(ACTIONS, name)
    run = getattr(module, name.replace("-", "_"), None)
    return LoadedAction(run, getattr(module, "ARGUMENTS", ())) if callable(run) else None


def is_path(name: str) -> bool:
    """Reports whether a name is `module:Name` or `module.Name`."""
    return ":" in name or "." in name


def _from_path(name: str, wanted: Callable[[Any], bool], what: str) -> tuple[ModuleType, Any]:
    module_name, _, attribute = name.partition(":") if ":" in name else name.rpartition(".")
    if not module_name or not attribute:
        raise LoadError(f"{name!r} should name a module and {what} in it, as module:Name")
    return _attribute(module_name, attribute, repr(name), wanted, what)


def _from_entry_point(
    group: str, entry: EntryPoint, wanted: Callable[[Any], bool], what: str
) -> tuple[ModuleType, Any]:
    label = f"{KIND[group]} {entry.name!r} of {_origin(entry)}"
    return _attribute(entry.module, entry.attr, label, wanted, what)


def _attribute(
    module_name: str, attribute: str, label: str, wanted: Callable[[Any], bool], what: str
) -> tuple[ModuleType, Any]:
    module = _import(module_name, label)
    found: Any = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise LoadError(f"{label} cannot be loaded: {module_name} has no {attribute}")
    if not wanted(found):
        raise LoadError(f"{label} is not {what}")
    return module, found


def _import(module: str, label: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except Exception as error:  # code of others, which may raise anything when it is imported
        raise LoadError(f"{label} cannot be loaded: {error}") from error


def _is_plugin(found: Any) -> bool:
    return isinstance(found, type) and issubclass(found, Plugin)


def _check_hooks(label: str, plugin: type[Plugin]) -> None:
    """Rejects public methods that are no hook: they would never be called."""
    for owner in plugin.__mro__:
        if owner is Plugin or not issubclass(owner, Plugin):
            continue
        for method, value in vars(owner).items():
            if method.startswith("_") or method in HOOKS or not _is_method(value):
                continue
            near = get_close_matches(method, HOOKS, n=1)
            hint = f"did you mean {near[0]}?" if near else "start the name of a helper with an underscore"
            raise LoadError(f"{label}: {owner.__name__}.{method} is not a hook; {hint}")


def _is_method(value: Any) -> bool:
    return isinstance(value, staticmethod | classmethod) or (callable(value) and not isinstance(value, type))


def _entry_point(group: str, name: str) -> EntryPoint | None:
    found = tuple(_entry_points(group).select(name=name))
    if len(found) > 1:
        raise LoadError(
            f"{KIND[group]} {name!r} is offered by {' and '.join(map(_origin, found))}; "
            f"uninstall all but one, or name one as {found[0].value}"
        )
    return found[0] if found else None


def _origin(entry: EntryPoint) -> str:
    """Returns the distribution and target of an entry point: `acme-plugins 1.2 (acme.quiet:Quiet)`."""
    known = f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "an unknown distribution"
    return f"{known} ({entry.value})"


def _entry_points(group: str) -> EntryPoints:
    # Reading the metadata of all distributions takes milliseconds; an installation changes the directory's time.
    return _read_entry_points(group, tuple((path, _modified(path)) for path in sys.path))


@lru_cache(maxsize=4)
def _read_entry_points(group: str, path: tuple[tuple[str, int], ...]) -> EntryPoints:
    return entry_points(group=group)


def _modified(path: str) -> int:
    try:
        return os.stat(path or ".").st_mtime_ns
    except OSError:
        return 0
