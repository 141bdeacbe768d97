"""Who manages which fields: managedFields kept up with every write."""

from volcano.apiserver.seams import Attributes, Served
from volcano.clock import Instant
from volcano.kube.manifest import Manifest


def track_creation(served: Served, request: Attributes, manifest: Manifest, now: Instant) -> None:
    """Notes the fields of a new object as its creator's."""


def track_update(served: Served, request: Attributes, new: Manifest, old: Manifest, now: Instant) -> None:
    """Notes the fields a write changed as the writer's."""
