"""The interface of job plugins: hooks that change new pods and add objects beside them."""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, NamedTuple

from volcano.controllers.job.plugins.arguments import Value, read_arguments
from volcano.controllers.job.spec import Job, Task
from volcano.kube.api.manifest import Manifest


class PluginError(ValueError):
    """A plugin that cannot be loaded, or rejects a job; the text says which and why."""


class KeyPair(NamedTuple):
    """A private key in PEM form and its public half as one line of an authorized_keys file."""

    private: str
    public: str


# Returns each key pair once; None while the next is being generated.
KeySource = Callable[[], KeyPair | None]


class NotYet(Exception):
    """Raised by hooks while generated content is not ready; the hook is called again shortly."""


class Plugin:
    """Base class of job plugins; an instance serves one job in one version of its spec.

    The hooks are the methods below. Other attributes of a plugin class start with an underscore: a public name that is
    not defined here is rejected when the plugin is loaded, since it is most likely a misspelled hook.
    """

    # Flags and their defaults; the type of a default is the type of the flag.
    defaults: ClassVar[Mapping[str, Value]] = {}
    # Plugins with a lower order see a pod first; plugins of the same order in the order of the job's spec.
    order: ClassVar[int] = 100

    def __init__(self, name: str, arguments: Sequence[str], keys: KeySource) -> None:
        self.name = name
        self.arguments = read_arguments(name, self.defaults, arguments)
        self.keys = keys

    def decorate(self, pod: Manifest, job: Job, task: Task, index: int) -> Manifest:
        """Returns the pod to create instead of `pod`, which may be changed in place. Raises PluginError to
        reject it."""
        return pod

    def extras(self, job: Job) -> list[Manifest]:
        """Returns objects that the pods need. They are created before the pods; their `data` is kept as given
        here."""
        return []

    def fill(self, manifest: Manifest) -> Manifest:
        """Returns one of the `extras` with content that is generated once, at its creation, such as keys. May
        raise NotYet."""
        return manifest
