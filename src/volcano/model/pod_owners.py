"""Services and workloads: the pods that belong together and are spread by default."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from volcano.kube.api.selectors import LabelSelector


@dataclass(frozen=True, slots=True)
class PodOwner:
    """A Service, ReplicaSet, StatefulSet or ReplicationController, and the pods it selects."""

    namespace: str
    name: str
    uid: str
    selector: LabelSelector


@dataclass(frozen=True, slots=True)
class PodOwners:
    """All of them: Services by namespace, workloads by uid."""

    services: Mapping[str, tuple[PodOwner, ...]] = field(default_factory=dict)
    workloads: Mapping[str, PodOwner] = field(default_factory=dict)

    @classmethod
    def of(cls, services: Iterable[PodOwner], workloads: Iterable[PodOwner]) -> "PodOwners":
        by_namespace: dict[str, tuple[PodOwner, ...]] = {}
        for service in services:
            by_namespace[service.namespace] = (*by_namespace.get(service.namespace, ()), service)
        return cls(by_namespace, {workload.uid: workload for workload in workloads})

    def selector(self, namespace: str, owner: str, labels: Mapping[str, str]) -> LabelSelector | None:
        """The pods that belong together with one: those that all its Services and its workload select; None if none
        does."""
        found = [
            service.selector
            for service in self.services.get(namespace, ())
            if not service.selector.empty and service.selector.matches(labels)
        ]
        workload = self.workloads.get(owner)
        if workload is not None and not workload.selector.empty:
            found.append(workload.selector)
        if not found or any(selector.selects_nothing for selector in found):
            return None
        return LabelSelector(
            tuple(requirement for selector in found for requirement in selector.requirements)
        )
