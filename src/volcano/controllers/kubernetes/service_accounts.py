"""Service account controller: the default service account and the root CA certificate of every namespace."""

from collections.abc import Iterable, Sequence

from volcano.clock import Instant
from volcano.kube import kinds
from volcano.kube.client import Event
from volcano.kube.controller import NOTHING, Plan, Reconciler, Watch
from volcano.kube.manifest import Key, Manifest, is_deleting, key_of
from volcano.kube.operations import Create, Operation, Patch

ACCOUNT = "default"
CERTIFICATE = "kube-root-ca.crt"


def default_account(namespace: str) -> Manifest:
    """The service account of pods that name none."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": ACCOUNT, "namespace": namespace},
    }


def certificate_map(namespace: str, certificate: str) -> Manifest:
    """The ConfigMap that service account volumes take the server's certificate from."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CERTIFICATE, "namespace": namespace},
        "data": {"ca.crt": certificate},
    }


class NamespaceAccounts(Reconciler[str]):
    """Creates and repairs both; `certificate` is the PEM text of the authority that signed the server's
    certificate."""

    name = "namespace-accounts"
    watches: Sequence[Watch] = (
        Watch(kinds.NAMESPACE),
        Watch(kinds.SERVICE_ACCOUNT, fields=f"metadata.name={ACCOUNT}"),
        Watch(kinds.CONFIG_MAP, fields=f"metadata.name={CERTIFICATE}"),
    )

    def __init__(self, certificate: str = "") -> None:
        super().__init__()
        self._certificate = certificate

    def keys(self, event: Event) -> Iterable[str]:
        key = key_of(event.object)
        return (key.name if event.kind == kinds.NAMESPACE else key.namespace,)

    def reconcile(self, name: str, now: Instant) -> Plan:
        namespace = self.indexer.get(kinds.NAMESPACE, Key("", name))
        if namespace is None or is_deleting(namespace):
            return NOTHING
        operations: list[Operation] = []
        if self.indexer.get(kinds.SERVICE_ACCOUNT, Key(name, ACCOUNT)) is None:
            operations.append(Create(kinds.SERVICE_ACCOUNT, default_account(name)))
        if self._certificate:
            wanted = certificate_map(name, self._certificate)
            present = self.indexer.get(kinds.CONFIG_MAP, Key(name, CERTIFICATE))
            if present is None:
                operations.append(Create(kinds.CONFIG_MAP, wanted))
            elif present.get("data") != wanted["data"]:
                operations.append(Patch(kinds.CONFIG_MAP, Key(name, CERTIFICATE), {"data": wanted["data"]}))
        return Plan(operations)
