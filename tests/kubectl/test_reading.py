"""kubectl reads: every output format, watches, descriptions, discovery and authorization."""

import json
import textwrap
import time
from pathlib import Path

import pytest

from tests.kubectl.conftest import Kubectl
from tests.kubectl.serving import Serving
from volcano.base.http.tls import issue

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  nodeName: n1
  containers: [{name: c, image: "busybox:1"}]
"""


@pytest.fixture(scope="module", autouse=True)
def _pod(kubectl: Kubectl) -> None:
    kubectl("create", "--validate=false", "-f", "-", stdin=POD)


def test_get_prints_the_columns_of_a_real_server(kubectl: Kubectl) -> None:
    header, namespace, *_ = kubectl("get", "ns").splitlines()
    assert header.split() == ["NAME", "STATUS", "AGE"]
    assert namespace.split()[:2] == ["default", "Active"]
    header, row = kubectl("get", "pods").splitlines()
    assert header.split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert row.split()[:4] == ["web", "0/1", "Pending", "0"]


def test_get_wide(kubectl: Kubectl) -> None:
    header, row = kubectl("get", "pods", "-o", "wide").splitlines()
    assert header.split(maxsplit=5)[5].split("  ")[0] == "IP"
    assert "n1" in row


def test_get_in_other_formats(kubectl: Kubectl) -> None:
    assert json.loads(kubectl("get", "pod", "web", "-o", "json"))["spec"]["nodeName"] == "n1"
    assert "  nodeName: n1" in kubectl("get", "pod", "web", "-o", "yaml")
    assert kubectl("get", "pod", "web", "-o", "jsonpath={.spec.containers[0].image}") == "busybox:1"
    columns = kubectl("get", "pods", "-o", "custom-columns=N:.metadata.name,NODE:.spec.nodeName")
    assert [line.split() for line in columns.splitlines()] == [["N", "NODE"], ["web", "n1"]]
    assert kubectl("get", "pods", "-o", "name", "-l", "app=web") == "pod/web\n"
    assert "web" in kubectl("get", "pods", "-A", "--show-labels", "--sort-by=.metadata.name")
    assert kubectl("get", "pods", "--field-selector", "spec.nodeName=n2", "-o", "name") == ""


def test_get_watch_prints_changes(kubectl: Kubectl) -> None:
    watcher = kubectl.start("get", "configmaps", "-w")
    assert watcher.stdout is not None
    try:
        kubectl("create", "configmap", "seen", "--from-literal=a=b")
        assert watcher.stdout.readline().split() == ["NAME", "DATA", "AGE"]
        assert watcher.stdout.readline().split()[:2] == ["seen", "1"]
    finally:
        watcher.terminate()
        watcher.wait(10)
        watcher.stdout.close()


def test_missing_objects_and_kinds_are_not_found(kubectl: Kubectl) -> None:
    assert kubectl.fails("get", "pod", "none") == 'Error from server (NotFound): pods "none" not found\n'
    assert "the server doesn't have a resource type" in kubectl.fails("get", "unicorns")


def test_describe(kubectl: Kubectl) -> None:
    described = kubectl("describe", "pod", "web")
    assert "Node:             n1" in described or "n1" in described
    assert "Image:" in described
    assert "Name:" in kubectl("describe", "ns", "default")


def test_discovery(kubectl: Kubectl) -> None:
    resources = kubectl("api-resources", "--no-headers")
    rows = [line.split() for line in resources.splitlines()]
    assert ["pods", "po", "v1", "true", "Pod"] in rows
    assert ["deployments", "deploy", "apps/v1", "true", "Deployment"] in rows
    assert {"v1", "apps/v1", "batch/v1"} <= set(kubectl("api-versions").split())
    assert "Server Version: v1.36.1+volcano." in kubectl("version")
    assert "Kubernetes control plane" in kubectl("cluster-info")
    assert "ok" in kubectl("get", "--raw", "/readyz?verbose")


def test_authorization(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "create", "pods") == "yes\n"
    assert kubectl.run("auth", "can-i", "create", "pods", "--as", "joe").stdout == "no\n"
    assert "kubernetes-admin" in kubectl("auth", "whoami")
    assert "*.*" in kubectl("auth", "can-i", "--list")
    kubectl("create", "rolebinding", "joe", "--clusterrole=view", "--user=joe")
    assert kubectl("auth", "can-i", "list", "pods", "--as", "joe") == "yes\n"
    assert kubectl.fails("get", "secrets", "--as", "joe") == (
        'Error from server (Forbidden): secrets is forbidden: User "joe" cannot list resource "secrets" '
        'in API group "" in the namespace "default"\n'
    )


def test_a_client_certificate_authenticates_the_user(
    kubectl: Kubectl, serving: Serving, tmp_path: Path
) -> None:
    credential = issue(serving.authority, "ann", now=time.time(), organizations=["ops"], client=True)
    certificate, key, authority = (tmp_path / name for name in ("ann.crt", "ann.key", "ca.crt"))
    certificate.write_bytes(credential.cert_pem)
    key.write_bytes(credential.key_pem)
    authority.write_bytes(serving.authority.cert_pem)
    shown = kubectl(
        "auth", "whoami", f"--server={serving.url}", f"--certificate-authority={authority}",
        f"--client-certificate={certificate}", f"--client-key={key}", KUBECONFIG="/dev/null",
    )  # fmt: skip
    assert "ann" in shown
    assert "ops" in shown


def test_logs(kubectl: Kubectl) -> None:
    assert kubectl("logs", "web", "--tail=2") == "web says 0\nweb says 1\n"
    assert kubectl("logs", "-f", "web") == "web says 0\nweb says 1\nweb says 2\n"
    assert "container x is not valid for pod web" in kubectl.fails("logs", "web", "-c", "x")


def test_unsupported_commands_fail_with_a_clear_message(kubectl: Kubectl) -> None:
    assert "simulated node" in kubectl.fails("exec", "web", "--", "ls")


def test_events(kubectl: Kubectl) -> None:
    event = textwrap.dedent("""
        apiVersion: v1
        kind: Event
        metadata: {name: web.1, namespace: default}
        involvedObject: {apiVersion: v1, kind: Pod, name: web, namespace: default}
        reason: Scheduled
        message: found a place
        type: Normal
        count: 1
        firstTimestamp: "2026-01-01T00:00:00Z"
        lastTimestamp: "2026-01-01T00:00:00Z"
    """)
    kubectl("create", "--validate=false", "-f", "-", stdin=event)
    assert "found a place" in kubectl("get", "events")
    assert "pod/web" in kubectl("get", "events.events.k8s.io").lower()
    assert "found a place" in kubectl("events", "--for", "pod/web")
