"""Namespaces: whether objects may be created in them, and whether they may be deleted."""

from volcano.apiserver.errors import forbidden, not_found, terminating
from volcano.apiserver.storage.store import Store
from volcano.kube.api.kinds import NAMESPACE, Kind
from volcano.kube.api.manifest import Key

_NAMESPACES = NAMESPACE.resource
PROTECTED = ("default", "kube-system", "kube-public")


def check_creation(store: Store, kind: Kind, key: Key) -> None:
    """Raises NotFound or Forbidden when the namespace does not accept new objects."""
    if not kind.namespaced:
        return
    record = store.get(_NAMESPACES, Key("", key.namespace))
    if record is None:
        raise not_found(NAMESPACE, key.namespace)
    if record.fields[0] == "Terminating":
        raise terminating(kind, key.name, key.namespace)


def check_deletion(kind: Kind, key: Key) -> None:
    """Raises Forbidden for the namespaces that may not be deleted."""
    if kind.resource == NAMESPACE.resource and key.name in PROTECTED:
        raise forbidden(NAMESPACE, key.name, "this namespace may not be deleted")
