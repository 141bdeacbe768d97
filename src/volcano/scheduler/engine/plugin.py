"""Plugin: base class of the scheduler's plugins; overriding a hook registers it.

The plugin `task-topology` of a configuration is the one `Plugin` subclass in `plugins/task_topology.py`. Hooks are
declared in `hooks.py`, in eight protocols, each with the reducer that combines the results of several plugins.
"""

import warnings
from collections.abc import Iterable
from typing import Any, ClassVar, Final

from volcano.model.snapshot import Snapshot
from volcano.scheduler.engine import answers, diagnosis, hooks
from volcano.scheduler.engine.answers import Memory, Purpose
from volcano.scheduler.engine.arguments import Argument, Arguments
from volcano.scheduler.engine.hooks import PluginHooks
from volcano.scheduler.engine.inputs import Input
from volcano.scheduler.engine.ledger_view import LedgerView
from volcano.scheduler.engine.node_table import NodeTable
from volcano.scheduler.engine.plugin_metrics import MetricSample
from volcano.scheduler.engine.reducers import combine, separately


class PluginSession:
    """A session as plugins see it."""

    snapshot: Snapshot
    ledger: LedgerView
    nodes: NodeTable


class Plugin(PluginHooks):
    """Base class of plugins: its hooks do nothing, and only hooks that a subclass overrides are called.

    Public methods of a subclass must be hooks; helpers start with an underscore.
    """

    arguments: ClassVar[tuple[Argument, ...]] = ()  # a wrong type is an error, an unknown name a warning
    # Data that the scheduler has to read for it, beside the objects of the cluster.
    inputs: ClassVar[tuple[Input, ...]] = ()
    # Whether its sort keys go before those of all other plugins, whatever the tier.
    orders_first: ClassVar[bool] = False
    # Whether its hooks about victims depend on what the preemptor holds already. If none of the plugins' do, and each
    # evaluates candidates in eviction order, victims for several identical tasks are searched for at once.
    depends_on_preemptor: ClassVar[bool] = True
    # Purposes for which its filter_victims protects the tasks of other jobs whose priority is not lower than that of
    # the preemptor. Victims are then not searched for where no job has a lower priority.
    only_lower_priority: ClassVar[frozenset[Purpose]] = frozenset()
    # Whether its decisions change with time alone, or with what other programs answer: while jobs wait, cycles are then
    # repeated in every period, not only after changes of the cluster.
    depends_on_time: ClassVar[bool] = False
    # Whether it measures what jobs hold over time: each change of jobs needs a cycle, also while none waits. The
    # running scheduler has one anyway, to report status.
    follows_usage: ClassVar[bool] = False
    # Hooks that have no effect in this cycle and are not called; to be set in `open`.
    unused_hooks: frozenset[str] = frozenset()

    def __init__(self, session: PluginSession, name: str) -> None:
        self.name = name  # as configured
        self.session = session
        self.snapshot = session.snapshot
        self.ledger = session.ledger
        self.resources = session.snapshot.resources
        self.nodes = session.nodes  # every node

    @combine(separately)
    def open(self, arguments: Arguments) -> None:
        """Reads the arguments (already validated) and prepares the cycle; called before any other hook.

        Must not iterate over all jobs or tasks: use `snapshot.totals` and `snapshot.active`, and compute on demand.
        """

    @combine(separately)
    def close(self) -> None:
        """Called once, after the last action."""

    @combine(separately)
    def measure(self) -> Iterable[MetricSample]:
        """Returns metrics of this cycle; only values that were computed anyway."""
        return ()

    @combine(separately)
    def remember(self) -> Memory | None:
        """Returns state for `snapshot.memory[name]` of the next cycle, and when that is due; None for nothing."""
        return None


SESSION_HOOKS: Final = ("open", "close", "measure", "remember")
# Reducers of all hooks by name.
REDUCERS: Final = {**dict.fromkeys(SESSION_HOOKS, separately), **hooks.REDUCERS}
HOOKS: Final = frozenset(REDUCERS)


def implements(plugin: type[Plugin], hook: str) -> bool:
    """Reports whether a plugin overrides a hook."""
    return getattr(plugin, hook) is not getattr(Plugin, hook)


def __getattr__(name: str) -> Any:
    """Names that plugins of earlier versions import from here."""
    for module in (answers, diagnosis):
        if not name.startswith("_") and hasattr(module, name):
            text = f"{name} is imported from {__name__}; import it from volcano.plugin"
            warnings.warn(text, DeprecationWarning, stacklevel=2)
            return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
