"""Defaults of pods, their containers, probes and volumes."""

from functools import lru_cache
from typing import Any

from volcano.kube.api import quantity
from volcano.kube.api.manifest import Manifest
from volcano.kube.resources.pod_requests import container_requests

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_DEFAULTS = (
    ("timeoutSeconds", 1),
    ("periodSeconds", 10),
    ("successThreshold", 1),
    ("failureThreshold", 3),
)
_SPEC_DEFAULTS = (
    ("restartPolicy", "Always"),
    ("terminationGracePeriodSeconds", 30),
    ("dnsPolicy", "ClusterFirst"),
    ("schedulerName", "default-scheduler"),
)
_FILES = ("secret", "configMap", "downwardAPI", "projected")
# Legacy volume types with their defaults.
_VOLUME_DEFAULTS: dict[str, dict[str, Any]] = {
    "hostPath": {"type": ""},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": False},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}
_FILE_MODE = 0o644
CLAIM_MODE = "Filesystem"


def default_pod(pod: Manifest) -> None:
    """Sets the defaults of a pod."""
    spec = pod.setdefault("spec", {})
    default_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    for container in spec.get("containers") or ():
        _requests_from_limits(container.get("resources"))
    for container in spec.get("initContainers") or ():
        _requests_from_limits(container.get("resources"))
    if spec.get("hostNetwork"):
        _expose_on_host(spec)
    if spec.get("resources"):
        _default_pod_level_requests(spec)


def default_template(holder: Manifest) -> None:
    """Sets the defaults of a workload's pod template; unlike a pod's, its requests stay as written."""
    template = holder.setdefault("template", {})
    template.setdefault("metadata", {})
    spec = template.setdefault("spec", {})
    default_spec(spec)
    if spec.get("hostNetwork"):
        _expose_on_host(spec)


def default_spec(spec: Manifest) -> None:
    """Sets the defaults of a pod spec, of a pod or a template."""
    for name, value in _SPEC_DEFAULTS:
        if spec.get(name) in (None, ""):
            spec[name] = value
    if spec.get("securityContext") is None:
        spec["securityContext"] = {}
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for name in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(name) or ():
            _default_container(container)
    for volume in spec.get("volumes") or ():
        default_volume(volume)
    resources = spec.get("resources") or {}
    for amounts in (spec.get("overhead"), resources.get("limits"), resources.get("requests")):
        canonical_amounts(amounts)


def _default_container(container: Manifest) -> None:
    if not container.get("terminationMessagePath"):
        container["terminationMessagePath"] = "/dev/termination-log"
    if not container.get("terminationMessagePolicy"):
        container["terminationMessagePolicy"] = "File"
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = "Always" if is_latest(container.get("image") or "") else "IfNotPresent"
    resources = container.get("resources")
    if resources is None:
        container["resources"] = {}
    else:
        canonical_amounts(resources.get("limits"))
        canonical_amounts(resources.get("requests"))
    for port in container.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
    for name in _PROBES:
        if (probe := container.get(name)) is not None:
            _default_probe(probe)
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict):
            _default_http(hook)
    for variable in container.get("env") or ():
        if source := variable.get("valueFrom"):
            _default_reference(source)


def _default_probe(probe: Manifest) -> None:
    for name, value in _PROBE_DEFAULTS:
        if not probe.get(name):
            probe[name] = value
    _default_http(probe)
    if (grpc := probe.get("grpc")) is not None and grpc.get("service") is None:
        grpc["service"] = ""


def _default_http(handler: Manifest) -> None:
    if (get := handler.get("httpGet")) is not None:
        get["path"] = get.get("path") or "/"
        get["scheme"] = get.get("scheme") or "HTTP"


def _default_reference(source: Manifest) -> None:
    if (reference := source.get("fieldRef")) is not None and not reference.get("apiVersion"):
        reference["apiVersion"] = "v1"
    if (reference := source.get("resourceFieldRef")) is not None:
        reference["divisor"] = canonical(reference.get("divisor") or "0")


def default_volume(volume: Manifest) -> None:
    """Sets the defaults of a volume; one without a source is an emptyDir."""
    if not volume.keys() - {"name"}:
        volume["emptyDir"] = {}
        return
    for name in _FILES:
        if (files := volume.get(name)) is not None:
            if files.get("defaultMode") is None:
                files["defaultMode"] = _FILE_MODE
            _default_files(files)
    for name, defaults in _VOLUME_DEFAULTS.items():
        if (source := volume.get(name)) is not None:
            for key, value in defaults.items():
                if source.get(key) is None:
                    source[key] = value
    if claim := (volume.get("ephemeral") or {}).get("volumeClaimTemplate"):
        claim.setdefault("metadata", {})
        default_claim_spec(claim.setdefault("spec", {}))
    if (empty := volume.get("emptyDir")) and "sizeLimit" in empty:
        empty["sizeLimit"] = canonical(empty["sizeLimit"])


def _default_files(files: Manifest) -> None:
    for item in files.get("items") or ():
        _default_reference(item)
    for source in files.get("sources") or ():
        for item in (source.get("downwardAPI") or {}).get("items") or ():
            _default_reference(item)
        token = source.get("serviceAccountToken")
        if token is not None and token.get("expirationSeconds") is None:
            token["expirationSeconds"] = 3600


def default_claim_spec(spec: Manifest) -> None:
    """Sets the defaults of the spec of a volume claim."""
    if not spec.get("volumeMode"):
        spec["volumeMode"] = CLAIM_MODE
    resources = spec.setdefault("resources", {})
    canonical_amounts(resources.get("requests"))
    canonical_amounts(resources.get("limits"))


def _requests_from_limits(resources: Manifest | None) -> None:
    if not resources or not resources.get("limits"):
        return
    requests = resources.get("requests")
    if requests is None:
        requests = resources["requests"] = {}
    for name, amount in resources["limits"].items():
        requests.setdefault(name, amount)


def _default_pod_level_requests(spec: Manifest) -> None:
    """Sets requests of a pod with limits: those of its containers together, for other resources the limit."""
    resources = spec["resources"]
    if not resources.get("limits"):
        return
    requests = resources["requests"] = resources.get("requests") or {}
    for name, amount in _container_requests(spec).items():
        if name in ("cpu", "memory"):
            requests.setdefault(name, amount)
    for name, amount in resources["limits"].items():
        if name in ("cpu", "memory") or name.startswith("hugepages-"):
            requests.setdefault(name, amount)


def _container_requests(spec: Manifest) -> dict[str, str]:
    try:
        return container_requests(spec)
    except ValueError:  # an invalid quantity is left for validation
        return {}


def _expose_on_host(spec: Manifest) -> None:
    for name in ("containers", "initContainers"):
        for container in spec.get(name) or ():
            for port in container.get("ports") or ():
                if not port.get("hostPort"):
                    port["hostPort"] = port.get("containerPort", 0)


@lru_cache(maxsize=1024)
def is_latest(image: str) -> bool:
    """Whether an image reference has no tag, or the tag `latest`, and no digest."""
    name, at, _ = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return tag == "latest" or (not tag and not at)


@lru_cache(maxsize=8192)
def canonical(amount: str | int | float) -> str:
    """A quantity in canonical form; an invalid one is left for validation."""
    try:
        return quantity.canonical(amount)
    except ValueError:
        return str(amount)


def canonical_amounts(amounts: dict[str, Any] | None) -> None:
    """Rewrites the quantities of a resource list in canonical form."""
    if amounts:
        for name, amount in amounts.items():
            if amount is not None:
                amounts[name] = canonical(amount)
