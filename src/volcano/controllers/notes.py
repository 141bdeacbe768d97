"""Events a controller leaves beside an object, for `kubectl describe`: one per reason, never spam."""

import hashlib

from volcano.clock import Instant
from volcano.kube.kinds import EVENT, Kind
from volcano.kube.manifest import Manifest, key_of, uid_of
from volcano.kube.operations import Create


def note(
    about: Manifest,
    kind: Kind,
    reason: str,
    message: str,
    now: Instant,
    *,
    source: str,
    warning: bool = False,
) -> Create:
    """An Event about an object. Said again, it is the same Event: its name follows from what it says."""
    key = key_of(about)
    digest = hashlib.sha256(f"{uid_of(about)}/{reason}/{message}".encode()).hexdigest()[:16]
    namespace = key.namespace or "default"
    return Create(
        EVENT,
        {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {"name": f"{key.name}.{digest}", "namespace": namespace},
            "involvedObject": {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "name": key.name,
                "uid": uid_of(about),
                **({"namespace": key.namespace} if key.namespace else {}),
            },
            "type": "Warning" if warning else "Normal",
            "reason": reason,
            "message": message,
            "source": {"component": source},
            "firstTimestamp": now.timestamp(),
            "lastTimestamp": now.timestamp(),
            "count": 1,
            "reportingComponent": source,
            "reportingInstance": "",
        },
        optional=True,
    )
