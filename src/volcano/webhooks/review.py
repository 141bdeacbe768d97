"""Contracts of the admission rules: the request, its options, and the violations found."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from volcano.kube.api.errors import Cause
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.api.names import SCHEDULER_NAME, SYSTEM_NAMESPACE


@dataclass(frozen=True, slots=True)
class Violation:
    """A field that violates a rule: its path, and what is wrong and what would be right."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


def annotations_in(manifest: Manifest | None) -> Mapping[str, str]:
    """The annotations of an object that may have no metadata yet."""
    return ((manifest or {}).get("metadata") or {}).get("annotations") or {}


class NotCached(Exception):
    """Objects of a kind that is not cached because it is rarely needed: to be fetched before the review."""

    def __init__(self, kind: Kind) -> None:
        super().__init__(f"{kind.plural} have to be fetched")
        self.kind = kind


class Lookup(Protocol):
    """Objects that rules read beside the reviewed one. Raises `NotCached` for kinds that have to be fetched."""

    def find(self, kind: Kind, key: Key) -> Manifest | None: ...

    def all(self, kind: Kind, namespace: str = "") -> list[Manifest]: ...


# Kubernetes' own validation of a pod template; each cause's field is relative to the template.
TemplateCheck = Callable[[Manifest], Iterable[Cause]]


def no_template_check(template: Manifest) -> Iterable[Cause]:
    """No check: the API server validates the template when the pod is created."""
    return ()


def no_resource_groups() -> Sequence[Manifest]:
    """No resource groups are configured."""
    return ()


@dataclass(frozen=True, slots=True)
class AdmissionOptions:
    """Options of admission."""

    scheduler_names: tuple[str, ...] = (SCHEDULER_NAME,)
    max_queue_depth: int = 5
    protect_root_queue: bool = True
    check_allocated_pods: bool = False
    job_plugins: frozenset[str] = frozenset(
        ("env", "svc", "ssh", "pytorch", "mpi", "tensorflow", "ray", "hcclrank")
    )
    check_template: TemplateCheck = no_template_check
    # Called for every pod: the file may change at any time.
    resource_groups: Callable[[], Sequence[Manifest]] = no_resource_groups
    gate_queue_admission: bool = False
    own_namespace: str = SYSTEM_NAMESPACE  # of the components, whose service accounts are no users


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """One write to review. `new` is None on DELETE, `old` is None on CREATE."""

    operation: str  # CREATE, UPDATE, DELETE
    kind: Kind
    key: Key
    new: Manifest | None
    old: Manifest | None
    lookup: Lookup
    options: AdmissionOptions = field(default_factory=AdmissionOptions)
    user: str = ""  # name of the user that sent it


Validator = Callable[[AdmissionRequest], Iterable[Violation]]
Mutator = Callable[[AdmissionRequest], Manifest]
Warner = Callable[[AdmissionRequest], Iterable[str]]
