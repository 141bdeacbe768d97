"""Objects that pods and volumes refer to: secrets, config maps, claims and service accounts."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from volcano.kube.api.manifest import Manifest

CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")
# Volume sources with a reference to a secret, by the field of the reference.
_SECRET_FIELDS = {
    "cephfs": "secretRef",
    "cinder": "secretRef",
    "flexVolume": "secretRef",
    "iscsi": "secretRef",
    "rbd": "secretRef",
    "scaleIO": "secretRef",
    "storageos": "secretRef",
    "csi": "nodePublishSecretRef",
}
# References of a CSI volume that a kubelet resolves; those for controllers are left out.
_KUBELET_CSI_FIELDS = ("nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef")


class Reference(NamedTuple):
    """A reference to an object: the plural name of its kind, its namespace and its name."""

    resource: str
    namespace: str
    name: str


def pod_references(pod: Manifest) -> Iterator[Reference]:
    """Every object in the pod's namespace that the pod's kubelet has to read."""
    spec, namespace = pod.get("spec") or {}, pod["metadata"].get("namespace", "")
    account = spec.get("serviceAccountName")
    if account:
        yield Reference("serviceaccounts", namespace, account)
    for resource, name in _named(spec):
        if name:
            yield Reference(resource, namespace, str(name))
    for resource, name in _claims(pod):
        yield Reference(resource, namespace, name)


def volume_secrets(volume: Manifest) -> Iterator[Reference]:
    """The secrets that a kubelet reads to mount a persistent volume."""
    spec = volume.get("spec") or {}
    claim = (spec.get("claimRef") or {}).get("namespace") or ""
    azure = spec.get("azureFile") or {}
    if azure.get("secretName"):
        yield Reference("secrets", azure.get("secretNamespace") or claim, azure["secretName"])
    for source, field in _SECRET_FIELDS.items():
        for name in _KUBELET_CSI_FIELDS if source == "csi" else (field,):
            reference = (spec.get(source) or {}).get(name) or {}
            if reference.get("name"):
                yield Reference("secrets", reference.get("namespace") or claim, reference["name"])


def _named(spec: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for secret in spec.get("imagePullSecrets") or ():
        yield "secrets", secret.get("name")
    for container in containers_of(spec):
        yield from _environment(container)
    for volume in spec.get("volumes") or ():
        yield from _volume(volume)


def containers_of(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """All containers of a pod: init, regular and ephemeral ones."""
    for kind in CONTAINER_LISTS:
        yield from spec.get(kind) or ()


def _environment(container: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for source in container.get("envFrom") or ():
        yield "secrets", (source.get("secretRef") or {}).get("name")
        yield "configmaps", (source.get("configMapRef") or {}).get("name")
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        yield "secrets", (source.get("secretKeyRef") or {}).get("name")
        yield "configmaps", (source.get("configMapKeyRef") or {}).get("name")


def _volume(volume: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "secrets", (volume.get("secret") or {}).get("secretName")
    yield "secrets", (volume.get("azureFile") or {}).get("secretName")
    yield "configmaps", (volume.get("configMap") or {}).get("name")
    for source, field in _SECRET_FIELDS.items():
        yield "secrets", ((volume.get(source) or {}).get(field) or {}).get("name")
    for projected in (volume.get("projected") or {}).get("sources") or ():
        yield "secrets", (projected.get("secret") or {}).get("name")
        yield "configmaps", (projected.get("configMap") or {}).get("name")


def _claims(pod: Manifest) -> Iterator[tuple[str, str]]:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    for volume in spec.get("volumes") or ():
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim:
            yield "persistentvolumeclaims", claim
        elif volume.get("ephemeral"):
            yield "persistentvolumeclaims", f"{pod['metadata']['name']}-{volume.get('name', '')}"
    created = status.get("resourceClaimStatuses") or ()
    for claim in _resource_claims(spec.get("resourceClaims") or (), created):
        yield "resourceclaims", claim


def _resource_claims(
    declared: Iterable[Mapping[str, Any]], created: Iterable[Mapping[str, Any]]
) -> Iterator[str]:
    generated = {entry.get("name"): entry.get("resourceClaimName") for entry in created}
    for claim in declared:
        name = claim.get("resourceClaimName") or generated.get(claim.get("name"))
        if name:
            yield str(name)
