"""What a job plugin is: it may change each new pod, and may want objects beside them."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import ClassVar, NamedTuple

from volcano.controllers.job.plugins.arguments import Value, read_arguments
from volcano.controllers.job.spec import Job, Task
from volcano.kube.manifest import Manifest


class PluginError(ValueError):
    """A plugin that cannot be had, or cannot do its work for this job; the text says which and why."""


class KeyPair(NamedTuple):
    """A private key in PEM form and its public half as one line of an authorized_keys file."""

    private: str
    public: str


# Gives key pairs, each once; None while the next is still being made.
KeySource = Callable[[], KeyPair | None]


class NotYet(Exception):
    """What a plugin needs is being made; ask again in a moment."""


class Plugin:
    """Overriding a method is the whole registration; an instance serves one job in one version of its spec."""

    # Flags and their defaults; the type of a default is the type of the flag.
    defaults: ClassVar[Mapping[str, Value]] = {}

    def __init__(self, name: str, arguments: Sequence[str], keys: KeySource) -> None:
        self.name = name
        self.arguments = read_arguments(name, self.defaults, arguments)
        self.keys = keys

    def decorate(self, pod: Manifest, job: Job, task: Task, index: int) -> Manifest:
        """The pod to create instead of `pod`, which is the plugin's to change. Raises PluginError to refuse."""
        return pod

    def extras(self, job: Job) -> list[Manifest]:
        """Objects the job's pods need beside them. Made before the pods; their `data` is kept as given here."""
        return []

    def fill(self, manifest: Manifest) -> Manifest:
        """An extra with what is made only once, when it is created, such as keys. May raise NotYet."""
        return manifest


# Built-in plugins, in the order in which they see a pod: frameworks build on names, ranks on frameworks.
BUILT_IN: Mapping[str, str] = {
    "svc": "volcano.controllers.job.plugins.svc:Svc",
    "ssh": "volcano.controllers.job.plugins.ssh:Ssh",
    "env": "volcano.controllers.job.plugins.env:Env",
    "tensorflow": "volcano.controllers.job.plugins.tensorflow:Tensorflow",
    "mpi": "volcano.controllers.job.plugins.mpi:Mpi",
    "pytorch": "volcano.controllers.job.plugins.pytorch:Pytorch",
    "ray": "volcano.controllers.job.plugins.ray:Ray",
    "hcclrank": "volcano.controllers.job.plugins.hcclrank:Hcclrank",
}


def load_plugins(plugins: Mapping[str, Sequence[str]], keys: KeySource) -> tuple[Plugin, ...]:
    """The plugins a job names, in working order. Raises PluginError."""
    order = [
        *(name for name in BUILT_IN if name in plugins),
        *(name for name in plugins if name not in BUILT_IN),
    ]
    return tuple(plugin_class(name)(name, plugins[name], keys) for name in order)


def plugin_class(name: str) -> type[Plugin]:
    """The class of a built-in plugin, or of one from elsewhere: `package.module:Class` or `package.module.Class`.

    Raises PluginError.
    """
    path = BUILT_IN.get(name, name)
    module_name, _, class_name = path.partition(":") if ":" in path else path.rpartition(".")
    if not module_name or not class_name:
        raise PluginError(
            f"there is no job plugin {name!r}; choose from {', '.join(BUILT_IN)}, "
            "or name one from elsewhere as package.module:Class"
        )
    try:
        found = getattr(import_module(module_name), class_name, None)
    except Exception as error:  # whatever its code does when it is read
        raise PluginError(f"job plugin {name!r} cannot be loaded: {error}") from None
    if not (isinstance(found, type) and issubclass(found, Plugin)):
        raise PluginError(f"job plugin {name!r}: {module_name} has no plugin class {class_name}")
    return found
