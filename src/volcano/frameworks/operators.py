"""Operators: their own manifests, rendered by kustomize and adapted to a cluster on one host, as `operator.yaml`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from volcano.base.yaml_dumper import dump
from volcano.base.yaml_loader import load_documents
from volcano.frameworks.installation import Installation
from volcano.frameworks.recipe import ImageMapping
from volcano.kube.api.manifest import Manifest

FILE = "operator.yaml"
PROBE_SECONDS, PROBE_FAILURES = (
    10,
    6,
)  # a probe fails after so long, and a container is restarted after so many
USER = 65532  # of the users that the manifests of operators ask for ("not root"), the usual one


@dataclass(frozen=True, slots=True)
class Adaptation:
    """Changes to the manifests of an operator.

    `arguments` are added to those of a container, by its name, and `environment` to all. `without` names objects
    (`Deployment/x`) and containers (`container/x`) that are left out. `rights` are rules to add to a ClusterRole, by
    its name. Requests and limits of resources are always removed: they are made for servers, and an operator of a few
    small jobs needs almost nothing. Probes get more time: operators are killed on busy machines otherwise.
    """

    namespace: str = ""  # created first, if the manifests do not contain it
    arguments: Mapping[str, Sequence[str]] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    rights: Mapping[str, Sequence[Manifest]] = field(default_factory=dict)


def manager_image(pattern: str, program: Path) -> ImageMapping:
    """The image of an operator that is one program, which its manifests call /manager."""
    return ImageMapping(pattern, paths=(f"{program}:/manager",), entrypoint=("/manager",), user=USER)


def render(installation: Installation, kustomization: str, adaptation: Adaptation) -> Path:
    """Renders a kustomization of the module's files and writes it, adapted; returns the file."""
    rendered = installation.directory / "rendered.yaml"
    installation.run("kubectl", "kustomize", str(installation.directory / kustomization), "-o", str(rendered))
    manifests = [document.value for document in load_documents(rendered.read_text()) if document.value]
    rendered.unlink()
    return write(installation.directory, manifests, adaptation)


def write(directory: Path, manifests: Iterable[Manifest], adaptation: Adaptation) -> Path:
    """Writes the adapted manifests of an operator; returns the file."""
    target = directory / FILE
    target.write_text("---\n".join(dump(manifest) for manifest in adapted(manifests, adaptation)))
    return target


def adapted(manifests: Iterable[Manifest], adaptation: Adaptation) -> list[Manifest]:
    """The manifests with the changes of an adaptation."""
    kept = [manifest for manifest in manifests if _name(manifest) not in adaptation.without]
    if adaptation.namespace and f"Namespace/{adaptation.namespace}" not in map(_name, kept):
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": adaptation.namespace}}
        kept.insert(0, namespace)
    for manifest in kept:
        if manifest["kind"] == "Deployment":
            _adapt_pods(manifest["spec"]["template"]["spec"], adaptation)
        if manifest["kind"] == "ClusterRole" and manifest["metadata"]["name"] in adaptation.rights:
            manifest["rules"] = [*manifest["rules"], *adaptation.rights[manifest["metadata"]["name"]]]
    return kept


def _adapt_pods(spec: Manifest, adaptation: Adaptation) -> None:
    spec["containers"] = [c for c in spec["containers"] if f"container/{c['name']}" not in adaptation.without]
    for container in spec["containers"]:
        container.pop("resources", None)
        for name in ("livenessProbe", "readinessProbe"):
            if name in container:
                container[name]["timeoutSeconds"] = PROBE_SECONDS
        if "livenessProbe" in container:
            container["livenessProbe"]["failureThreshold"] = PROBE_FAILURES
        if container["name"] in adaptation.arguments:
            container["args"] = [*container.get("args", ()), *adaptation.arguments[container["name"]]]
        variables = [{"name": name, "value": value} for name, value in adaptation.environment.items()]
        if variables:
            container["env"] = [*container.get("env", ()), *variables]


def _name(manifest: Manifest) -> str:
    return f"{manifest['kind']}/{manifest['metadata']['name']}"
