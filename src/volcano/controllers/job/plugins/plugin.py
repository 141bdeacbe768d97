"""What a job plugin is: it may change each new pod, and may want objects beside them."""

from collections.abc import Callable, Mapping, Sequence
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
    """Base class of job plugins; an instance serves one job in one version of its spec.

    The hooks are the methods below. Other attributes of a plugin class start with an underscore: a public name that is
    not defined here is rejected when the plugin is loaded, since it is most likely a misspelled hook.
    """

    # Flags and their defaults; the type of a default is the type of the flag.
    defaults: ClassVar[Mapping[str, Value]] = {}
    # Plugins with a lower order see a pod first; those with the same in the order in which the job names them.
    order: ClassVar[int] = 100

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
