"""Kubernetes events about a job: named after what they say, so that saying it again makes no second one."""

from hashlib import sha256

from volcano.clock import Instant
from volcano.kube.kinds import EVENT, JOB
from volcano.kube.manifest import Manifest
from volcano.kube.operations import Create

COMPONENT = "vc-controller-manager"
LONGEST_MESSAGE = 1024


def say(
    job: Manifest, reason: str, message: str, now: Instant, *, warning: bool = False, occasion: str = ""
) -> Create:
    """The write that records an event; `occasion` tells one occurrence from the next of the same text."""
    metadata = job["metadata"]
    namespace, name, uid = metadata.get("namespace", ""), metadata["name"], metadata.get("uid", "")
    message = message[:LONGEST_MESSAGE]
    digest = sha256("\0".join((uid, reason, message, occasion)).encode()).hexdigest()[:16]
    stamp = now.timestamp()
    return Create(
        EVENT,
        {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {"namespace": namespace, "name": f"{name}.{digest}"},
            "involvedObject": {
                "apiVersion": JOB.api_version,
                "kind": JOB.kind,
                "namespace": namespace,
                "name": name,
                "uid": uid,
                "resourceVersion": metadata.get("resourceVersion", ""),
            },
            "type": "Warning" if warning else "Normal",
            "reason": reason,
            "message": message,
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": "",
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
        },
        optional=True,
    )
