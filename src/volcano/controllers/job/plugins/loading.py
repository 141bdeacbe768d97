"""Discovery of job plugins: files of this package, entry points of installed distributions, dotted names."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules

from volcano.controllers.job import plugins as package
from volcano.controllers.job.plugins.plugin import KeySource, Plugin, PluginError

ENTRY_POINTS = "volcano.job.plugins"
# Attributes set by the constructor may be declared in the class.
_KNOWN = frozenset(name for name in dir(Plugin) if not name.startswith("_")) | {"name", "arguments", "keys"}


def load_plugins(plugins: Mapping[str, Sequence[str]], keys: KeySource) -> tuple[Plugin, ...]:
    """The plugins a job names, in the order in which they see a pod. Raises PluginError."""
    classes = {name: plugin_class(name) for name in plugins}
    order = sorted(plugins, key=lambda name: classes[name].order)
    return tuple(classes[name](name, plugins[name], keys) for name in order)


@cache
def built_in_plugins() -> Mapping[str, type[Plugin]]:
    """The plugins of this package by the name of their file; files without a plugin are skipped."""
    by_name: dict[str, type[Plugin]] = {}
    for info in iter_modules(package.__path__):
        module = import_module(f"{package.__name__}.{info.name}")
        classes = [
            value
            for value in vars(module).values()
            if isinstance(value, type) and issubclass(value, Plugin) and value.__module__ == module.__name__
        ]
        classes = [cls for cls in classes if cls is not Plugin]
        if len(classes) > 1:
            raise PluginError(f"{module.__name__} has several plugin classes; there must be one in a file")
        if classes:
            by_name[info.name] = _checked(info.name, classes[0])
    return dict(sorted(by_name.items(), key=lambda item: (item[1].order, item[0])))


def known_plugins() -> tuple[str, ...]:
    """The names of built-in plugins, then those of entry points."""
    installed = sorted(entry_points(group=ENTRY_POINTS).names)
    return tuple(dict.fromkeys((*built_in_plugins(), *installed)))


def plugin_class(name: str) -> type[Plugin]:
    """The class of a built-in plugin, of an entry point, or at `package.module:Class` or
    `package.module.Class`.

    Raises PluginError.
    """
    built_in = built_in_plugins().get(name)
    if built_in is not None:
        return built_in
    try:
        path = _entry_point(name)
    except KeyError:
        path = name
    module_name, _, class_name = path.partition(":") if ":" in path else path.rpartition(".")
    if not module_name or not class_name:
        raise PluginError(
            f"there is no job plugin {name!r}; choose from {', '.join(known_plugins())}, "
            "or name one from elsewhere as package.module:Class"
        )
    try:
        cls = getattr(import_module(module_name), class_name, None)
    except Exception as error:  # code of a third party, which may raise anything when it is imported
        raise PluginError(f"job plugin {name!r} cannot be loaded: {error}") from None
    if not (isinstance(cls, type) and issubclass(cls, Plugin)):
        raise PluginError(f"job plugin {name!r}: {module_name} has no plugin class {class_name}")
    return _checked(name, cls)


@cache
def _entry_point(name: str) -> str:
    """The module and class of an entry point.

    Raises KeyError, which is not cached: a distribution may be installed while the controller runs.
    """
    return entry_points(group=ENTRY_POINTS)[name].value


def _checked(name: str, cls: type[Plugin]) -> type[Plugin]:
    """Returns the class; raises PluginError for a public name that is not a hook."""
    own = {attribute for base in cls.__mro__ if issubclass(base, Plugin) for attribute in vars(base)}
    for attribute in sorted(own):
        if attribute.startswith("_") or attribute in _KNOWN:
            continue
        nearest = get_close_matches(attribute, sorted(_KNOWN), n=1, cutoff=0.0)[0]
        raise PluginError(
            f"job plugin {name!r}: {cls.__name__}.{attribute} is not a hook; did you mean {nearest!r}? "
            f"The hooks are {', '.join(_hooks())}; names of your own start with an underscore"
        )
    return cls


def _hooks() -> list[str]:
    return [name for name, value in vars(Plugin).items() if callable(value) and not name.startswith("_")]
