"""kubectl and the OpenAPI documents: lists, validation and the version 2 document in protobuf."""

import json
import re

import pytest

from tests.k8s.control_plane import build
from tests.kubectl.conftest import Kubectl

CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gadgets, singular: gadget, kind: Gadget, listKind: GadgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer, nullable: true}
              either: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: string}}}
"""
LIST = """
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: first}
  data: {key: value}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: second}
  spec:
    selector: {matchLabels: {app: a}}
    template:
      metadata: {labels: {app: a}}
      spec: {containers: [{name: c, image: busybox}]}
- apiVersion: example.com/v1
  kind: Gadget
  metadata: {name: third}
  spec: {size: 3, either: 25%, free: {b: 1}}
"""


@pytest.fixture(params=["installed", "built"])
def any_kubectl(request: pytest.FixtureRequest, kubectl: Kubectl) -> Kubectl:
    """The kubectl of the machine, and that of the Kubernetes version whose control plane is built."""
    if request.param == "built":
        if "kubectl" in build.missing():
            pytest.skip("not built: kubectl")
        kubectl = Kubectl(str(build.program("kubectl")), kubectl.kubeconfig, kubectl.home)
    return kubectl


@pytest.mark.parametrize("validation", ["strict", "warn", "ignore"])
def test_apply_accepts_a_list_of_built_in_and_custom_kinds(any_kubectl: Kubectl, validation: str) -> None:
    any_kubectl("apply", "-f", "-", stdin=CRD)
    any_kubectl("wait", "--for=condition=Established", "crd/gadgets.example.com")
    output = any_kubectl("apply", f"--validate={validation}", "-f", "-", stdin=LIST)
    assert re.findall(r"^(\S+) (?:created|unchanged|configured)$", output, re.MULTILINE) == [
        "configmap/first",
        "deployment.apps/second",
        "gadget.example.com/third",
    ]
    changed = LIST.replace("size: 3", "size: null").replace("value", "other")
    any_kubectl("apply", f"--validate={validation}", "-f", "-", stdin=changed)
    assert any_kubectl("get", "cm", "first", "-o", "jsonpath={.data.key}") == "other"
    any_kubectl("delete", "-f", "-", stdin=LIST)


def test_an_unknown_field_in_a_list_is_rejected(any_kubectl: Kubectl) -> None:
    message = any_kubectl.fails("apply", "-f", "-", stdin=LIST.replace("data: {", "dota: {"))
    assert 'unknown field "dota"' in message


def test_the_document_follows_the_crds(kubectl: Kubectl) -> None:
    crd = CRD.replace("gadget", "device").replace("Gadget", "Device")
    assert "com.example.v1.Device" not in json.loads(kubectl("get", "--raw", "/openapi/v2"))["definitions"]
    kubectl("apply", "-f", "-", stdin=crd)
    device = json.loads(kubectl("get", "--raw", "/openapi/v2"))["definitions"]["com.example.v1.Device"]
    assert device["x-kubernetes-group-version-kind"] == [
        {"group": "example.com", "kind": "Device", "version": "v1"}
    ]
    kubectl("apply", "-f", "-", stdin=crd.replace("size:", "length:"))
    device = json.loads(kubectl("get", "--raw", "/openapi/v2"))["definitions"]["com.example.v1.Device"]
    assert "length" in device["properties"]["spec"]["properties"]
