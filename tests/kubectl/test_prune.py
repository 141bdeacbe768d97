"""`kubectl apply --prune`, which lists the kinds of a fixed list, Ingresses among them."""

import json

from tests.kubectl.conftest import Kubectl

SETTINGS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: NAME, labels: {app: pruned}}
---
"""
INGRESS = """
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: NAME, labels: {app: pruned}}
spec:
  ingressClassName: example
  rules:
  - host: a.example.com
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}
---
"""


def test_objects_that_are_no_longer_applied_are_deleted(kubectl: Kubectl) -> None:
    both = "".join(text.replace("NAME", name) for text in (SETTINGS, INGRESS) for name in ("kept", "dropped"))
    kept = "".join(text.replace("NAME", "kept") for text in (SETTINGS, INGRESS))
    kubectl("apply", "--prune", "-l", "app=pruned", "-f", "-", stdin=both)
    output = kubectl("apply", "--prune", "-l", "app=pruned", "-f", "-", stdin=kept)
    assert "configmap/dropped pruned" in output
    assert "ingress.networking.k8s.io/dropped pruned" in output
    left = json.loads(kubectl("get", "configmaps,ingresses", "-l", "app=pruned", "-o", "json"))
    assert [(item["kind"], item["metadata"]["name"]) for item in left["items"]] == [
        ("ConfigMap", "kept"),
        ("Ingress", "kept"),
    ]
    kubectl("delete", "configmaps,ingresses", "-l", "app=pruned")


def test_ingresses_and_their_classes_are_printed_as_by_a_real_server(kubectl: Kubectl) -> None:
    rules = ",".join(f"{{host: {name}.example.com}}" for name in "abcd")
    manifests = f"""
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {{name: many}}
spec: {{ingressClassName: example, tls: [{{hosts: [x]}}], rules: [{rules}]}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {{name: plain}}
spec: {{defaultBackend: {{service: {{name: web, port: {{name: http}}}}}}}}
---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {{name: example}}
spec: {{controller: example.com/ingress, parameters: {{kind: Settings, name: all, apiGroup: example.com}}}}
"""
    kubectl("create", "-f", "-", stdin=manifests)
    status = '{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"},{"hostname":"h.example.com"}]}}}'
    kubectl("patch", "ingress", "plain", "--subresource=status", "--type=merge", "-p", status)
    rows = [line.split(maxsplit=2)[:2] for line in kubectl("get", "ingress", "--no-headers").splitlines()]
    assert rows == [["many", "example"], ["plain", "<none>"]]
    text = kubectl("get", "ing")
    assert "a.example.com,b.example.com,c.example.com + 1 more..." in text
    assert "80, 443" in text
    assert "192.0.2.1,h.example.com" in text
    assert text.split()[:6] == ["NAME", "CLASS", "HOSTS", "ADDRESS", "PORTS", "AGE"]
    assert "Settings.example.com/all" in kubectl("get", "ingressclasses")
    assert "web:http" in kubectl("describe", "ingress", "plain")
    kubectl("delete", "-f", "-", stdin=manifests)
