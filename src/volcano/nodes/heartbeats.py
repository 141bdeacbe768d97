"""Node heartbeats: the lease, renewed often, and the conditions, repeated rarely."""

from volcano.base.clock import Instant
from volcano.kube.api.kinds import LEASE
from volcano.kube.api.manifest import Key, Manifest, key_of, uid_of
from volcano.kube.client.operations import Create, Operation, Patch

LEASE_SECONDS = 40
HEARTBEAT = 10.0
STATUS_HEARTBEAT = 300.0
LEASE_NAMESPACE = "kube-node-lease"


def renewal(node: Manifest, now: Instant, *, exists: bool) -> Operation:
    """The write that renews a node's lease, or creates it, owned by the node. An existing lease is no error."""
    name = key_of(node).name
    spec = {
        "holderIdentity": name,
        "leaseDurationSeconds": LEASE_SECONDS,
        "renewTime": now.micro_timestamp(),
    }
    if exists:
        return Patch(LEASE, Key(LEASE_NAMESPACE, name), {"spec": spec})
    reference = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid_of(node)}
    metadata = {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [reference]}
    manifest = {"apiVersion": LEASE.api_version, "kind": "Lease", "metadata": metadata, "spec": spec}
    return Create(LEASE, manifest, if_absent=True)
