"""CertificateSigningRequests over HTTP: who requests, approves and signs what."""

import base64
from typing import Any

import pytest

from tests.apiserver.servers import Answered, TestServer
from tests.base.http.requests import certificate_request
from volcano.apiserver.interfaces import User
from volcano.base.http.certificate_requests import sign
from volcano.base.http.tls import create_authority
from volcano.kube.api.manifest import Manifest

TARGET = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
MERGE = "application/merge-patch+json"
AUTHORITY = create_authority("test", now=1_700_000_000.0)
APPROVED = {"type": "Approved", "status": "True", "reason": "r", "message": "m"}
DENIED = {**APPROVED, "type": "Denied"}
FAILED = {**APPROVED, "type": "Failed"}


async def server_with_request(*rules: Manifest) -> TestServer:
    """A server with one request, by the admin; the token `joe` has `rules`."""
    joe = User("joe", ("dev",), "u1", {"team": ("blue",)})
    server = await TestServer(tokens={"joe": joe}).start()
    every = {
        "verbs": ["*"],
        "apiGroups": ["certificates.k8s.io"],
        "resources": [
            "certificatesigningrequests",
            "certificatesigningrequests/approval",
            "certificatesigningrequests/status",
        ],
    }
    await server.made(f"{RBAC}/clusterroles", {"metadata": {"name": "joe"}, "rules": [every, *rules]})
    await server.made(
        f"{RBAC}/clusterrolebindings",
        {
            "metadata": {"name": "joe"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "joe"},
            "subjects": [{"kind": "User", "name": "joe", "apiGroup": "rbac.authorization.k8s.io"}],
        },
    )
    await server.made(TARGET, body())
    return server


def body(name: str = "c", common_name: str = "jane", organizations: Any = ("dev",), **spec: Any) -> Manifest:
    return {
        "metadata": {"name": name},
        "spec": {
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
            "request": certificate_request(common_name, organizations),
            **spec,
        },
    }


def may(verb: str, *names: str) -> Manifest:
    return {
        "verbs": [verb],
        "apiGroups": ["certificates.k8s.io"],
        "resources": ["signers"],
        "resourceNames": names,
    }


async def patch(server: TestServer, subresource: str, status: Manifest, token: str = "the-admin") -> Answered:
    target = f"{TARGET}/c/{subresource}" if subresource else f"{TARGET}/c"
    return await server.ask("PATCH", target, {"status": status}, token=token, content_type=MERGE)


def certificate() -> str:
    pem = base64.b64decode(certificate_request("jane"))
    return base64.b64encode(sign(AUTHORITY, pem, ["client auth"], now=1_700_000_000.0, seconds=3600)).decode()


async def test_the_user_of_a_request_is_the_one_who_sent_it() -> None:
    server = await server_with_request()
    forged = body("forged", username="admin", groups=["system:masters"], uid="0", extra={"a": ["b"]})
    created = await server.post(TARGET, forged, token="joe")
    spec = created.json["spec"]
    assert (spec["username"], spec["groups"], spec["uid"], spec["extra"]) == (
        "joe",
        ["dev"],
        "u1",
        {"team": ["blue"]},
    )


async def test_a_request_is_created_undecided_and_does_not_change() -> None:
    server = await server_with_request()
    early = {**body("early"), "status": {"conditions": [APPROVED], "certificate": certificate()}}
    assert (await server.post(TARGET, early)).json["status"] == {}
    stored = (await server.get(f"{TARGET}/c")).json
    changed = {**stored, "spec": {**stored["spec"], "signerName": "example.com/other", "username": "root"}}
    updated = await server.ask("PUT", f"{TARGET}/c", changed)
    assert (updated.code, updated.json["spec"]) == (200, stored["spec"])


async def test_a_client_certificate_for_cluster_admins_is_not_issued() -> None:
    server = await server_with_request()
    refused = await server.post(TARGET, body("root", "root", ["system:masters"]))
    assert refused.message == (
        'certificatesigningrequests.certificates.k8s.io "root" is forbidden: '
        "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
    )


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        ([], 403),
        ([may("approve", "kubernetes.io/kubelet-serving")], 403),
        ([may("sign", "kubernetes.io/kube-apiserver-client")], 403),
        ([may("approve", "kubernetes.io/kube-apiserver-client")], 200),
        ([may("approve", "kubernetes.io/*")], 200),
    ],
)
async def test_approving_needs_the_right_for_the_signer(rules: list[Manifest], code: int) -> None:
    server = await server_with_request(*rules)
    answered = await patch(server, "approval", {"conditions": [APPROVED]}, "joe")
    assert answered.code == code, answered.body
    if code == 403:
        assert answered.message == (
            'certificatesigningrequests.certificates.k8s.io "c" is forbidden: user not permitted to approve '
            'requests with signerName "kubernetes.io/kube-apiserver-client"'
        )


async def test_signing_needs_the_right_for_the_signer() -> None:
    server = await server_with_request(may("approve", "kubernetes.io/*"))
    refused = await patch(server, "status", {"certificate": certificate()}, "joe")
    assert refused.code == 403
    assert "user not permitted to sign requests with signerName" in refused.message
    assert (await patch(server, "status", {"certificate": certificate()})).code == 200


async def test_an_approval_sets_conditions_only_and_stamps_them() -> None:
    server = await server_with_request()
    answered = await patch(server, "approval", {"conditions": [APPROVED], "certificate": certificate()})
    assert "certificate" not in answered.json["status"]
    (condition,) = answered.json["status"]["conditions"]
    now = server.clock.now().timestamp()
    assert (condition["lastUpdateTime"], condition["lastTransitionTime"]) == (now, now)


@pytest.mark.parametrize(
    ("subresource", "first", "then", "message"),
    [
        ("status", {}, {"conditions": [APPROVED]}, 'updates may not add a condition of type "Approved"'),
        (
            "approval",
            {"conditions": [APPROVED]},
            {"conditions": []},
            'may not remove a condition of type "Approved"',
        ),
        (
            "approval",
            {"conditions": [APPROVED]},
            {"conditions": [APPROVED, DENIED]},
            "Approved and Denied conditions are mutually exclusive",
        ),
        ("approval", {}, {"conditions": [{**APPROVED, "status": "False"}]}, 'supported values: "True"'),
        ("approval", {}, {"conditions": [APPROVED, APPROVED]}, 'Duplicate value: "Approved"'),
        ("status", {}, {"certificate": "bm90aGluZw=="}, "must contain at least one CERTIFICATE PEM block"),
    ],
)
async def test_decisions_are_final_and_well_formed(
    subresource: str, first: Manifest, then: Manifest, message: str
) -> None:
    server = await server_with_request()
    if first:
        assert (await patch(server, "approval", first)).code == 200
    answered = await patch(server, subresource, then)
    assert answered.code == 422, answered.body
    assert message in answered.message


async def test_a_certificate_is_not_replaced() -> None:
    server = await server_with_request()
    assert (await patch(server, "status", {"certificate": certificate()})).code == 200
    again = await patch(server, "status", {"certificate": certificate()})
    assert "updates may not modify existing certificate content" in again.message
    plain = await patch(server, "", {"certificate": certificate()})
    assert plain.code == 200  # the status is not written by this path
    failed = await patch(server, "status", {"conditions": [FAILED]})
    assert [each["type"] for each in failed.json["status"]["conditions"]] == ["Failed"]


async def test_requests_are_selected_by_their_signer() -> None:
    server = await server_with_request()
    for signer, count in (("kubernetes.io/kube-apiserver-client", 1), ("example.com/x", 0)):
        found = await server.get(f"{TARGET}?fieldSelector=spec.signerName%3D{signer.replace('/', '%2F')}")
        assert len(found.json["items"]) == count
