"""Kubelets: what the Node authorizer lets them read, and what NodeRestriction lets them write."""

from typing import Any

import pytest

from tests.apiserver.servers import Answered, TestServer
from tests.base.http.requests import certificate_request
from volcano.apiserver.authz.nodes import node_of, node_user
from volcano.apiserver.interfaces import User
from volcano.kube.api.manifest import Manifest

CORE = "/api/v1"
HERE = f"{CORE}/namespaces/default"
LEASES = "/apis/coordination.k8s.io/v1/namespaces"
STORAGE = "/apis/storage.k8s.io/v1"
KUBELETS = {name: node_user(name) for name in ("n1", "n2")}


async def cluster() -> TestServer:
    """Two nodes; pod `p` on n1 uses one object of each kind, and nothing is on n2."""
    server = await TestServer(tokens=KUBELETS).start()
    await server.made(f"{HERE}/serviceaccounts", {"metadata": {"name": "robot"}})
    for name in ("n1", "n2"):
        await server.made(f"{CORE}/nodes", {"metadata": {"name": name}})
    for name in ("mounted", "from-env", "pull", "projected", "of-volume", "other"):
        await server.made(f"{HERE}/secrets", {"metadata": {"name": name}})
    for name in ("settings", "other"):
        await server.made(f"{HERE}/configmaps", {"metadata": {"name": name}})
    for name in ("data", "other"):
        claim = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeName": f"pv-{name}",
        }
        await server.made(f"{HERE}/persistentvolumeclaims", {"metadata": {"name": name}, "spec": claim})
        volume = {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": "default", "name": name},
            "csi": {
                "driver": "d",
                "volumeHandle": "h",
                "nodePublishSecretRef": {"namespace": "default", "name": "of-volume"},
                "controllerPublishSecretRef": {"namespace": "default", "name": "other"},
            },
        }
        await server.made(f"{CORE}/persistentvolumes", {"metadata": {"name": f"pv-{name}"}, "spec": volume})
    await server.made(
        f"{STORAGE}/csidrivers", {"metadata": {"name": "d"}, "spec": {"tokenRequests": [{"audience": "csi"}]}}
    )
    await server.made(f"{HERE}/pods", pod("p", "n1"))
    await server.made(f"{HERE}/pods", {"metadata": {"name": "loose"}, "spec": container()})
    for name, node in (("va1", "n1"), ("va2", "n2")):
        spec = {"attacher": "d", "nodeName": node, "source": {"persistentVolumeName": "pv-data"}}
        await server.made(f"{STORAGE}/volumeattachments", {"metadata": {"name": name}, "spec": spec})
    return server


def container(**more: Any) -> Manifest:
    return {"containers": [{"name": "c", "image": "i", **more}]}


def pod(name: str, node: str) -> Manifest:
    token = {"serviceAccountToken": {"path": "t", "audience": "vault"}}
    return {
        "metadata": {"name": name},
        "spec": {
            **container(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "from-env", "key": "k"}}}]),
            "nodeName": node,
            "serviceAccountName": "robot",
            "imagePullSecrets": [{"name": "pull"}],
            "volumes": [
                {"name": "s", "secret": {"secretName": "mounted"}},
                {"name": "m", "configMap": {"name": "settings"}},
                {"name": "d", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "x", "projected": {"sources": [{"secret": {"name": "projected"}}, token]}},
            ],
        },
    }


UNRELATED = "no relationship found between node 'n2' and this object"
READABLE = [
    *(f"{HERE}/secrets/{name}" for name in ("mounted", "from-env", "pull", "projected", "of-volume")),
    f"{HERE}/configmaps/settings",
    f"{HERE}/persistentvolumeclaims/data",
    f"{HERE}/serviceaccounts/robot",
    f"{HERE}/pods/p",
    f"{CORE}/persistentvolumes/pv-data",
    f"{STORAGE}/volumeattachments/va1",
]


@pytest.mark.parametrize("path", READABLE)
async def test_only_the_node_of_the_pod_reads_what_the_pod_uses(path: str) -> None:
    server = await cluster()
    assert (await server.get(path, token="n1")).code == 200
    refused = await server.get(path, token="n2")
    assert refused.code == 403
    assert refused.message.endswith(f": {UNRELATED}")
    assert (await server.ask("DELETE", f"{HERE}/pods/p?gracePeriodSeconds=0")).code == 200
    if "volumeattachments" not in path:
        assert (await server.get(path, token="n1")).code == 403


DENIED = [
    (f"{HERE}/secrets/other", "no relationship found between node 'n1' and this object"),
    (f"{HERE}/secrets", "No Object name found"),
    (f"{CORE}/secrets", "can only read namespaced object of this type"),
    (f"{HERE}/configmaps/other", "no relationship found between node 'n1' and this object"),
    (f"{CORE}/persistentvolumes/pv-other", "no relationship found between node 'n1' and this object"),
    (f"{CORE}/persistentvolumes", "can only get individual resources of this type"),
    (f"{HERE}/pods/loose", "no relationship found between node 'n1' and this object"),
    (f"{CORE}/pods", "can only list/watch pods with spec.nodeName field selector"),
    (
        f"{CORE}/pods?fieldSelector=spec.nodeName%3Dn2",
        "can only list/watch pods with spec.nodeName field selector",
    ),
    (f"{CORE}/nodes/n2", "node 'n1' cannot read 'n2', only its own Node object"),
    (f"{CORE}/nodes", "node 'n1' cannot read all nodes, only its own Node object"),
    (
        f"{LEASES}/default/leases/n1",
        'can only access leases in the "kube-node-lease" system namespace',
    ),
    (
        f"{LEASES}/kube-node-lease/leases/n2",
        "can only access node lease with the same name as the requesting node",
    ),
    (f"{STORAGE}/csinodes/n2", "can only access CSINode with the same name as the requesting node"),
]


@pytest.mark.parametrize(("path", "reason"), DENIED)
async def test_other_reads_are_denied_with_their_reason(path: str, reason: str) -> None:
    server = await cluster()
    refused = await server.get(path, token="n1")
    assert refused.code == 403
    assert refused.message.endswith(f": {reason}"), refused.message


ALLOWED = [
    f"{CORE}/pods?fieldSelector=spec.nodeName%3Dn1",
    f"{HERE}/secrets?fieldSelector=metadata.name%3Dmounted",
    f"{CORE}/nodes/n1",
    f"{CORE}/nodes?fieldSelector=metadata.name%3Dn1",
    f"{CORE}/services",
    f"{STORAGE}/csidrivers",
    "/apis/node.k8s.io/v1/runtimeclasses",
]


@pytest.mark.parametrize("path", ALLOWED)
async def test_a_kubelet_lists_what_it_needs(path: str) -> None:
    server = await cluster()
    assert (await server.get(path, token="n1")).code == 200


async def test_what_other_roles_grant_is_allowed_too() -> None:
    server = await cluster()
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    await server.made(
        f"{rbac}/clusterrolebindings",
        {
            "metadata": {"name": "readers"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "Group", "name": "system:nodes", "apiGroup": "rbac.authorization.k8s.io"}],
        },
    )
    assert (await server.get(f"{HERE}/configmaps/other", token="n1")).code == 200
    assert (await server.get(f"{HERE}/secrets/other", token="n1")).code == 403


async def mirror(server: TestServer, **changes: Any) -> Manifest:
    uid = (await server.get(f"{CORE}/nodes/n1")).json["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid, "controller": True}
    metadata = {
        "name": "static",
        "annotations": {"kubernetes.io/config.mirror": "x"},
        "ownerReferences": [{**owner, **changes.pop("owner", {})}],
        **changes.pop("metadata", {}),
    }
    return {"metadata": metadata, "spec": {**container(), "nodeName": "n1", **changes}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, ""),
        (
            {"metadata": {"annotations": {}}},
            'pod does not have "kubernetes.io/config.mirror" annotation, node "n1" can only create mirror pods',
        ),
        ({"nodeName": "n2"}, 'node "n1" can only create pods with spec.nodeName set to itself'),
        (
            {"metadata": {"ownerReferences": []}},
            'node "n1" can only create pods with an owner reference set to itself',
        ),
        ({"owner": {"name": "n2"}}, 'node "n1" can only create pods with an owner reference set to itself'),
        (
            {"owner": {"controller": False}},
            'node "n1" can only create pods with a controller owner reference set to itself',
        ),
        (
            {"owner": {"blockOwnerDeletion": True}},
            'node "n1" must not set blockOwnerDeletion on an owner reference',
        ),
        ({"owner": {"uid": "wrong"}}, "node n1 UID mismatch: expected wrong got "),
        ({"serviceAccountName": "robot"}, 'node "n1" can not create pods that reference serviceaccounts'),
        (
            {"volumes": [{"name": "v", "secret": {"secretName": "other"}}]},
            'node "n1" can not create pods that reference secrets',
        ),
        (
            {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "other"}}]},
            'node "n1" can not create pods that reference persistentvolumeclaims',
        ),
        (
            {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
            'node "n1" can not create pods that reference serviceaccounts (via projected volumes)',
        ),
    ],
)
async def test_a_kubelet_creates_mirror_pods_of_its_own_only(changes: Manifest, message: str) -> None:
    server = await cluster()
    created = await server.post(f"{HERE}/pods", await mirror(server, **changes), token="n1")
    assert created.code == (403 if message else 201), created.body
    assert message in (created.message if message else "")


async def test_a_mirror_pod_gives_no_access_to_other_objects() -> None:
    server = await cluster()
    body = await mirror(server, volumes=[{"name": "v", "secret": {"secretName": "other"}}])
    assert (await server.post(f"{HERE}/pods", body)).code == 201  # by the cluster admin
    assert (await server.get(f"{HERE}/secrets/other", token="n1")).code == 403


async def test_a_kubelet_writes_the_status_of_its_pods_only() -> None:
    server = await cluster()
    target = f"{HERE}/pods/p/status"
    patch = {"content_type": "application/merge-patch+json"}
    running = {"status": {"phase": "Running"}}
    assert (await server.ask("PATCH", target, running, token="n1", **patch)).code == 200
    refused = await server.ask("PATCH", target, running, token="n2", **patch)
    assert refused.code == 403
    assert 'node "n2" can only update pod status for pods with spec.nodeName set to itself' in refused.message
    relabelled = await server.ask("PATCH", target, {"metadata": {"labels": {"a": "b"}}}, token="n1", **patch)
    assert 'node "n1" cannot update labels through pod status' in relabelled.message
    spec = await server.ask("PATCH", f"{HERE}/pods/p", {"spec": {}}, token="n1", **patch)
    assert spec.code == 403


async def test_a_kubelet_deletes_and_evicts_its_pods_only() -> None:
    server = await cluster()
    refused = await server.ask("DELETE", f"{HERE}/pods/p", token="n2")
    assert 'node "n2" can only delete pods with spec.nodeName set to itself' in refused.message
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    refused = await server.post(f"{HERE}/pods/p/eviction", eviction, token="n2")
    assert "node n2 can only evict pods with spec.nodeName set to itself" in refused.message
    assert (await server.post(f"{HERE}/pods/p/eviction", eviction, token="n1")).code == 201


@pytest.mark.parametrize(
    ("name", "patch", "message"),
    [
        ("n2", {"metadata": {"annotations": {"a": "b"}}}, 'node "n1" is not allowed to modify node "n2"'),
        ("n1", {"metadata": {"annotations": {"a": "b"}}}, ""),
        ("n1", {"metadata": {"labels": {"example.com/a": "b", "kubernetes.io/os": "linux"}}}, ""),
        ("n1", {"metadata": {"labels": {"x.node.kubernetes.io/a": "b"}}}, ""),
        (
            "n1",
            {"metadata": {"labels": {"node-restriction.kubernetes.io/a": "b"}}},
            "is not allowed to modify labels: node-restriction.kubernetes.io/a",
        ),
        (
            "n1",
            {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": "", "k8s.io/x": "y"}}},
            "is not allowed to modify labels: k8s.io/x, node-role.kubernetes.io/control-plane",
        ),
        (
            "n1",
            {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}},
            "is not allowed to modify taints",
        ),
        (
            "n1",
            {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]}},
            "is not allowed to modify ownerReferences",
        ),
    ],
)
async def test_a_kubelet_changes_its_own_node_but_not_where_workloads_go(
    name: str, patch: Manifest, message: str
) -> None:
    server = await cluster()
    answered = await server.ask(
        "PATCH", f"{CORE}/nodes/{name}", patch, token="n1", content_type="application/merge-patch+json"
    )
    assert answered.code == (403 if message else 200), answered.body
    assert message in (answered.message if message else "")


async def test_a_kubelet_registers_itself_without_restricted_labels() -> None:
    server = await TestServer(tokens=KUBELETS).start()
    labels = {"kubernetes.io/hostname": "n1", "node-restriction.kubernetes.io/a": "b"}
    refused = await server.post(f"{CORE}/nodes", {"metadata": {"name": "n1", "labels": labels}}, token="n1")
    assert refused.message == (
        'nodes "n1" is forbidden: node "n1" is not allowed to set the following labels: '
        "node-restriction.kubernetes.io/a"
    )
    del labels["node-restriction.kubernetes.io/a"]
    body = {
        "metadata": {"name": "n1", "labels": labels},
        "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
    }
    assert (await server.post(f"{CORE}/nodes", body, token="n1")).code == 201
    assert (await server.post(f"{CORE}/nodes", {"metadata": {"name": "n2"}}, token="n1")).code == 403
    assert (await server.ask("DELETE", f"{CORE}/nodes/n1", token="n1")).code == 403


async def test_a_kubelet_has_one_lease_and_one_csi_node() -> None:
    server = await cluster()
    leases = f"{LEASES}/kube-node-lease/leases"
    assert (await server.post(leases, {"metadata": {"name": "n1"}, "spec": {}}, token="n1")).code == 201
    refused = await server.post(leases, {"metadata": {"name": "n2"}, "spec": {}}, token="n1")
    assert "can only access node lease with the same name as the requesting node" in refused.message
    csi_node = {"metadata": {"name": "n1"}, "spec": {"drivers": []}}
    assert (await server.post(f"{STORAGE}/csinodes", csi_node, token="n1")).code == 201
    assert (
        await server.post(f"{STORAGE}/csinodes", {**csi_node, "metadata": {"name": "n2"}}, token="n1")
    ).code == 403


async def test_a_kubelet_publishes_slices_of_its_own_node_only() -> None:
    server = await cluster()
    slices = "/apis/resource.k8s.io/v1/resourceslices"

    def body(node: str) -> Manifest:
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "gpu.example.com", "nodeName": node, "pool": pool, "devices": [{"name": "gpu-0"}]}
        return {"metadata": {"name": f"{node}-gpus"}, "spec": spec}

    assert (await server.post(slices, body("n1"), token="n1")).code == 201
    refused = await server.post(slices, body("n2"), token="n1")
    assert "can only create ResourceSlice with the same NodeName as the requesting node" in refused.message
    assert (await server.post(slices, body("n2"), token="n2")).code == 201
    assert (await server.get(f"{slices}/n1-gpus", token="n1")).code == 200
    assert (await server.get(f"{slices}/n2-gpus", token="n1")).code == 403
    assert (await server.get(f"{slices}?fieldSelector=spec.nodeName=n1", token="n1")).code == 200
    assert (await server.get(slices, token="n1")).code == 403
    assert (await server.ask("DELETE", f"{slices}/n2-gpus", token="n1")).code == 403
    assert (await server.ask("DELETE", f"{slices}/n1-gpus", token="n1")).code == 200


async def request_token(server: TestServer, node: str, **spec: Any) -> Answered:
    uid = (await server.get(f"{HERE}/pods/p")).json["metadata"]["uid"]
    bound = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, **spec.pop("bound", {})}
    body = {"spec": {"audiences": ["vault"], "boundObjectRef": bound, **spec}}
    return await server.post(f"{HERE}/serviceaccounts/robot/token", body, token=node)


@pytest.mark.parametrize(
    ("node", "spec", "message"),
    [
        ("n1", {}, ""),
        ("n1", {"audiences": ["csi"]}, ""),
        ("n2", {}, "no relationship found between node 'n2' and this object"),
        ("n1", {"boundObjectRef": None}, "node requested token not bound to a pod"),
        ("n1", {"bound": {"uid": ""}}, "node requested token with a pod binding without a uid"),
        ("n1", {"bound": {"uid": "wrong"}}, "the UID in the bound object reference (wrong) does not match"),
        ("n1", {"bound": {"name": "missing"}}, 'pods "missing" not found'),
        ("n1", {"audiences": ["vault", "bank"]}, "node may only request 0 or 1 audiences"),
        (
            "n1",
            {"audiences": ["bank"]},
            'audience "bank" not found in pod spec volume, system:node:n1 is not authorized to request tokens for '
            "this audience",
        ),
        ("n1", {"audiences": []}, 'audience "" not found in pod spec volume'),
    ],
)
async def test_a_kubelet_gets_tokens_for_its_pods_only(node: str, spec: Manifest, message: str) -> None:
    server = await cluster()
    answered = await request_token(server, node, **spec)
    assert (answered.code == 201) is (not message), answered.body
    assert message in (answered.message if message else "")


async def test_a_malformed_token_request_is_rejected() -> None:
    server = await cluster()
    bodies: list[Any] = [[], {"spec": 5}, {"spec": {"boundObjectRef": []}}, {"spec": {"audiences": 5}}]
    for body in bodies:
        answered = await server.post(f"{HERE}/serviceaccounts/robot/token", body, token="n1")
        assert answered.code == 400, answered.body


async def test_a_kubelet_requests_certificates_in_its_own_name_only() -> None:
    server = await cluster()
    target = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

    def body(common_name: str) -> Manifest:
        return {
            "metadata": {"name": "c"},
            "spec": {
                "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
                "request": certificate_request(common_name, ["system:nodes"]),
                "usages": ["digital signature", "client auth"],
            },
        }

    refused = await server.post(target, body("system:node:n2"), token="n1")
    assert "can only create a node CSR with CN=system:node:n1" in refused.message
    assert (await server.post(target, body("system:node:n1"), token="n1")).code == 201


async def test_access_reviews_explain_denials_of_kubelets() -> None:
    server = await cluster()
    attributes = {"verb": "list", "resource": "pods", "namespace": ""}
    spec = {"user": "system:node:n1", "groups": ["system:nodes"], "resourceAttributes": attributes}
    target = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    denied = await server.made(target, {"spec": spec})
    assert denied["status"] == {
        "allowed": False,
        "reason": "can only list/watch pods with spec.nodeName field selector",
    }
    requirement = {"key": "spec.nodeName", "operator": "In", "values": ["n1"]}
    for selector in ({"requirements": [requirement]}, {"rawSelector": "spec.nodeName=n1"}):
        asked = {**spec, "resourceAttributes": {**attributes, "fieldSelector": selector}}
        assert (await server.made(target, {"spec": asked}))["status"]["allowed"] is True


@pytest.mark.parametrize(
    ("user", "node"),
    [
        (User("system:node:n1", ("system:nodes",)), "n1"),
        (User("system:node:", ("system:nodes",)), ""),
        (User("system:node:n1", ("others",)), None),
        (User("joe", ("system:nodes",)), None),
    ],
)
def test_a_node_is_identified_by_name_and_group(user: User, node: str | None) -> None:
    assert node_of(user) == node


async def test_a_user_of_the_group_without_a_node_is_no_kubelet() -> None:
    tokens = {"joe": User("joe", ("system:nodes",)), "nameless": User("system:node:", ("system:nodes",))}
    server = await TestServer(tokens=tokens).start()
    for token in tokens:
        assert (await server.get(f"{CORE}/services", token=token)).code == 403
