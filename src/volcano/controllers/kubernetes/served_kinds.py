"""The kinds an API server stores: the built-in ones and those of CRDs, as controllers learn of them from events."""

from collections.abc import Iterable

from volcano.kube import kinds
from volcano.kube.client import Event, EventType
from volcano.kube.crds import served_kinds
from volcano.kube.kinds import Kind, by_gvk

_KNOWN = by_gvk((*kinds.BUILT_IN, *kinds.OURS))


class ServedKinds:
    """Built-in kinds without `ignored`, plus the kinds of established CRDs. Fed with the events of CRDs.

    Several versions of one kind are one kind, preferably the version that objects are stored in.
    """

    def __init__(self, ignored: Iterable[Kind] = (kinds.EVENTS_EVENT,)) -> None:
        ignored = {*ignored, kinds.HORIZONTAL_POD_AUTOSCALER_V1}  # stored as v2
        built_in = tuple(kind for kind in kinds.BUILT_IN if kind not in ignored)
        self._by_crd: dict[str, tuple[Kind, ...]] = {"": built_in}
        self._by_manifest = _by_manifest(self._by_crd)

    def on_event(self, event: Event) -> bool:
        """Applies the event of a CRD; returns whether the served kinds have changed."""
        name: str = event.object["metadata"]["name"]
        served = () if event.type is EventType.DELETED else tuple(map(_shared, served_kinds(event.object)))
        if self._by_crd.get(name, ()) == served:
            return False
        self._by_crd[name] = served
        if not served:
            del self._by_crd[name]
        self._by_manifest = _by_manifest(self._by_crd)
        return True

    def stored(self) -> tuple[Kind, ...]:
        """Every kind once."""
        return tuple(dict.fromkeys(self._by_manifest.values()))

    def find(self, api_version: str, kind: str) -> Kind | None:
        """The kind that a manifest or an owner reference names; None when it is not served."""
        return self._by_manifest.get((api_version, kind))

    def of_crd(self, name: str) -> Kind | None:
        """The kind that a CRD defines; None when it is not established."""
        served = self._by_crd.get(name)
        return served[0] if served else None


def _by_manifest(by_crd: dict[str, tuple[Kind, ...]]) -> dict[tuple[str, str], Kind]:
    """Kinds by apiVersion and kind, other versions of a CRD's kind included."""
    known = by_gvk(by_crd[""])
    for name, served in by_crd.items():
        if name:
            known |= {(kind.api_version, kind.kind): served[0] for kind in served}
    return known


def _shared(kind: Kind) -> Kind:
    """The constant of a kind that other controllers watch too: equal watches share an informer."""
    return _KNOWN.get((kind.api_version, kind.kind), kind)
