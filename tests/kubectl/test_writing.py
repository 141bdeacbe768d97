"""kubectl writes: create, apply, edit, patch, label, scale, delete, wait."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.kubectl.conftest import Kubectl

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec: {{containers: [{{name: c, image: "busybox:{tag}"}}]}}
"""


def deployment(name: str, replicas: int = 1, tag: str = "1") -> str:
    return DEPLOYMENT.format(name=name, replicas=replicas, tag=tag)


def read(kubectl: Kubectl, *arguments: str) -> Any:
    return json.loads(kubectl("get", *arguments, "-o", "json"))


@pytest.mark.parametrize(
    ("arguments", "read_back", "path", "value"),
    [
        (("ns", "team"), ("ns", "team"), ("status", "phase"), "Active"),
        (("configmap", "cm", "--from-literal=a=b"), ("cm", "cm"), ("data", "a"), "b"),
        (("secret", "generic", "s", "--from-literal=a=b"), ("secret", "s"), ("data", "a"), "Yg=="),
        (("deployment", "d", "--image=busybox", "--replicas=2"), ("deploy", "d"), ("spec", "replicas"), 2),
        (("quota", "q", "--hard=pods=5"), ("quota", "q"), ("spec", "hard", "pods"), "5"),
        (("priorityclass", "high", "--value=100"), ("pc", "high"), ("value",), 100),
        (("serviceaccount", "robot"), ("sa", "robot"), ("metadata", "name"), "robot"),
        (("job", "j", "--image=busybox", "--", "true"), ("job", "j"), ("spec", "parallelism"), 1),
        (("role", "r", "--verb=get", "--resource=pods"), ("role", "r"), ("metadata", "name"), "r"),
        (("service", "clusterip", "svc", "--tcp=80:80"), ("svc", "svc"), ("spec", "type"), "ClusterIP"),
    ],
)
def test_create_without_a_file(
    kubectl: Kubectl,
    arguments: tuple[str, ...],
    read_back: tuple[str, ...],
    path: tuple[str, ...],
    value: Any,
) -> None:
    kubectl("create", *arguments)
    found = read(kubectl, *read_back)
    for step in path:
        found = found[step]
    assert found == value


def test_create_token(kubectl: Kubectl) -> None:
    kubectl("create", "serviceaccount", "bearer")
    token = kubectl("create", "token", "bearer", "--duration=1h").strip()
    whoami = kubectl("auth", "whoami", "--token", token, "-o", "jsonpath={.status.userInfo.username}")
    assert whoami == "system:serviceaccount:default:bearer"


def test_apply_creates_configures_and_leaves_unchanged(kubectl: Kubectl) -> None:
    assert kubectl("apply", "-f", "-", stdin=deployment("web")) == "deployment.apps/web created\n"
    assert kubectl("apply", "-f", "-", stdin=deployment("web")) == "deployment.apps/web unchanged\n"
    assert kubectl("apply", "-f", "-", stdin=deployment("web", 3)) == "deployment.apps/web configured\n"
    assert read(kubectl, "deploy", "web")["spec"]["replicas"] == 3


def test_apply_rejects_unknown_fields(kubectl: Kubectl) -> None:
    broken = deployment("broken").replace("replicas:", "replicaz:")
    assert "replicaz" in kubectl.fails("apply", "-f", "-", stdin=broken)


def test_server_side_apply_conflicts_on_fields_of_other_managers(kubectl: Kubectl) -> None:
    first = ("apply", "--server-side", "--field-manager=one", "-f", "-")
    second = ("apply", "--server-side", "--field-manager=two", "-f", "-")
    kubectl(*first, stdin=deployment("ssa", 1))
    error = kubectl.fails(*second, stdin=deployment("ssa", 2))
    assert 'conflict with "one"' in error
    assert ".spec.replicas" in error
    kubectl(*second, "--force-conflicts", stdin=deployment("ssa", 2))
    assert read(kubectl, "deploy", "ssa")["spec"]["replicas"] == 2


def test_diff_shows_the_changes(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=deployment("diffed", 1))
    done = kubectl.run("diff", "-f", "-", stdin=deployment("diffed", 4))
    assert done.returncode == 1, done.stderr
    assert "+  replicas: 4" in done.stdout
    assert read(kubectl, "deploy", "diffed")["spec"]["replicas"] == 1


def test_edit(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl("create", "configmap", "edited", "--from-literal=a=before")
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/before/after/ "$1"\n')
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    assert "edited" in kubectl("edit", "configmap", "edited", EDITOR=str(editor))
    assert read(kubectl, "cm", "edited")["data"] == {"a": "after"}


def test_every_kind_of_patch(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "patched", "--image=busybox")
    strategic = {"spec": {"template": {"spec": {"containers": [{"name": "extra", "image": "i"}]}}}}
    kubectl("patch", "deploy", "patched", "-p", json.dumps(strategic))
    kubectl("patch", "deploy", "patched", "--type=merge", "-p", '{"spec":{"replicas":4}}')
    kubectl(
        "patch",
        "deploy",
        "patched",
        "--type=json",
        "-p",
        '[{"op":"add","path":"/metadata/labels/x","value":"y"}]',
    )
    found = read(kubectl, "deploy", "patched")
    assert sorted(c["name"] for c in found["spec"]["template"]["spec"]["containers"]) == ["busybox", "extra"]
    assert (found["spec"]["replicas"], found["metadata"]["labels"]["x"]) == (4, "y")


def test_label_annotate_scale(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "small", "--image=busybox")
    kubectl("label", "deploy", "small", "tier=front")
    kubectl("annotate", "deploy", "small", "note=hello")
    kubectl("scale", "deploy", "small", "--replicas=5")
    found = read(kubectl, "deploy", "small")
    assert found["metadata"]["labels"]["tier"] == "front"
    assert found["metadata"]["annotations"]["note"] == "hello"
    assert found["spec"]["replicas"] == 5
    kubectl("label", "deploy", "small", "tier-")
    assert "tier" not in read(kubectl, "deploy", "small")["metadata"]["labels"]


def test_rollout_status_waits_for_the_controller(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "rolling", "--image=busybox")
    waiting = kubectl.run("rollout", "status", "deploy/rolling", "--timeout=1s")
    assert waiting.returncode != 0
    generation = read(kubectl, "deploy", "rolling")["metadata"]["generation"]
    status = {
        "status": {
            "observedGeneration": generation,
            "replicas": 1,
            "updatedReplicas": 1,
            "readyReplicas": 1,
            "availableReplicas": 1,
        }
    }
    kubectl("patch", "deploy", "rolling", "--subresource=status", "--type=merge", "-p", json.dumps(status))
    assert "successfully rolled out" in kubectl("rollout", "status", "deploy/rolling", "--timeout=10s")


def test_wait_for_a_condition_and_for_deletion(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "awaited", "--from-literal=a=b")
    assert "condition met" in kubectl("wait", "cm/awaited", "--for=jsonpath={.data.a}=b", "--timeout=10s")
    assert kubectl.run("wait", "cm/awaited", "--for=delete", "--timeout=1s").returncode != 0
    kubectl("delete", "cm", "awaited")
    kubectl("wait", "cm/awaited", "--for=delete", "--timeout=10s")


def test_delete(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "unused")
    # Since 1.34 kubectl also names the namespace.
    assert kubectl("delete", "cm", "unused").startswith('configmap "unused" deleted')
    assert "NotFound" in kubectl.fails("delete", "cm", "unused")
    for cascade in ("orphan", "background", "foreground"):
        kubectl("create", "deployment", cascade, "--image=busybox")
        kubectl("delete", "deploy", cascade, f"--cascade={cascade}", "--wait=false")
    kubectl("create", "configmap", "many1")
    kubectl("label", "cm", "many1", "group=many")
    assert "many1" in kubectl("delete", "cm", "-l", "group=many")


def test_server_dry_run_stores_nothing(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "not-stored", "--dry-run=server")
    assert "NotFound" in kubectl.fails("get", "cm", "not-stored")


def test_taint_and_cordon(kubectl: Kubectl) -> None:
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: n9}\n"
    kubectl("create", "--validate=false", "-f", "-", stdin=node)
    kubectl("taint", "node", "n9", "gpu=yes:NoSchedule")
    kubectl("cordon", "n9")
    found = read(kubectl, "node", "n9")["spec"]
    assert found["unschedulable"] is True
    assert {"key": "gpu", "value": "yes", "effect": "NoSchedule"} in found["taints"]
    assert "SchedulingDisabled" in kubectl("get", "node", "n9")


CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kites.toys.example}
spec:
  group: toys.example
  scope: Namespaced
  names: {plural: kites, singular: kite, kind: Kite, shortNames: [kt]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns:
    - {name: Color, type: string, jsonPath: .spec.color}
    - {name: Length, type: integer, jsonPath: .spec.length, priority: 1}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [color]
            properties:
              color: {type: string, description: The color of the fabric.}
              length: {type: integer, minimum: 1}
"""
KITE = "apiVersion: toys.example/v1\nkind: Kite\nmetadata: {{name: big}}\nspec: {{color: {color}, length: {length}}}\n"


def test_custom_resources(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=CRD)
    kubectl("wait", "crd/kites.toys.example", "--for=condition=Established", "--timeout=10s")
    kubectl("apply", "-f", "-", stdin=KITE.format(color="red", length=3))
    assert (
        kubectl("apply", "-f", "-", stdin=KITE.format(color="blue", length=3))
        == "kite.toys.example/big configured\n"
    )
    header, row = kubectl("get", "kt").splitlines()
    assert (header.split(), row.split()[:2]) == (["NAME", "COLOR", "AGE"], ["big", "blue"])
    assert "LENGTH" in kubectl("get", "kites", "-o", "wide")
    error = kubectl.fails("apply", "-f", "-", stdin=KITE.format(color="blue", length=0))
    assert "spec.length" in error
    kubectl("patch", "kite", "big", "--type=merge", "-p", '{"spec":{"color":"green"}}')
    kubectl("delete", "kite", "big")


def test_explain(kubectl: Kubectl) -> None:
    assert "restartPolicy" in kubectl("explain", "pod.spec")
    assert "containers" in kubectl("explain", "deployment", "--recursive")
