"""Options of one scheduler."""

from dataclasses import dataclass

from volcano.kube.api import names
from volcano.kube.api.kinds import Kind
from volcano.model.cluster import Cluster


@dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """Settings of one scheduler, as its flags give them."""

    scheduler_names: tuple[str, ...] = (names.SCHEDULER_NAME,)
    serve_default: bool = False  # also schedule pods of Kubernetes' default scheduler
    default_queue: str = names.DEFAULT_QUEUE
    node_selector: tuple[tuple[str, str], ...] = ()  # only nodes with one of these labels, if any is given
    ignored_provisioners: tuple[str, ...] = ()
    period: float = 1.0  # seconds between cycles at most, while a job waits
    seed: int = 0
    ignored_kinds: frozenset[Kind] = frozenset()  # not watched, as if there were no such objects
    scheduled_events: bool = False  # record an event for each pod that is bound

    @property
    def component(self) -> str:
        """Name under which events are recorded."""
        return self.scheduler_names[0] if len(self.scheduler_names) == 1 else names.SCHEDULER_NAME

    def new_cluster(self) -> Cluster:
        """An empty cluster cache."""
        return Cluster(
            scheduler_names=self.scheduler_names,
            serve_default=self.serve_default,
            default_queue=self.default_queue,
            node_selector=self.node_selector,
            ignored_provisioners=self.ignored_provisioners,
        )
