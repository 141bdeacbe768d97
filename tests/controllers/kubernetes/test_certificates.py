"""Certificates for kubelets and users: approved, signed and removed."""

import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.base.http.requests import KEY, certificate_request
from tests.cluster import SmallCluster
from volcano.base.http.tls import create_authority, issued_by
from volcano.controllers.kubernetes.certificates import (
    CLIENT,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    CertificateController,
    Requestor,
)
from volcano.kube.api.errors import NotFound
from volcano.kube.api.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from volcano.kube.api.manifest import Key, Manifest

AUTHORITY = create_authority("test", now=1_700_000_000.0, days=36500)
KUBELET_USAGES = ["digital signature", "client auth"]
HOUR = 3600.0


def allowed(user: Requestor, subresource: str) -> bool:
    """Bootstrappers may have certificates of nodes, and nodes may renew theirs."""
    group = {"nodeclient": "bootstrappers", "selfnodeclient": "system:nodes"}[subresource]
    return group in user.groups


def cluster() -> SmallCluster:
    return SmallCluster(CertificateController(AUTHORITY, allowed))


async def create(place: SmallCluster, user: Manifest | None = None, **spec: Any) -> Manifest:
    body = {
        "signerName": KUBELET_CLIENT,
        "usages": KUBELET_USAGES,
        "request": certificate_request("system:node:n1", ["system:nodes"]),
        **(user or {"username": "system:bootstrap:a", "groups": ["bootstrappers"]}),
        **spec,
    }
    await place.create(CSR, "c", spec=body)
    return await place.get(CSR, "c")


async def approve(place: SmallCluster, type_: str = "Approved") -> Manifest:
    request = await place.get(CSR, "c")
    condition = {"type": type_, "status": "True", "reason": "ByAdmin", "message": "m"}
    request["status"] = {"conditions": [condition]}
    await place.client.update(CSR, request, subresource="approval")
    await place.rest()
    return await place.get(CSR, "c")


def certificate(request: Manifest) -> x509.Certificate:
    return x509.load_pem_x509_certificate(base64.b64decode(request["status"]["certificate"]))


async def test_a_bootstrapping_kubelet_gets_its_certificate() -> None:
    async with cluster() as place:
        request = await create(place)
        (condition,) = request["status"]["conditions"]
        assert (condition["type"], condition["reason"]) == ("Approved", "AutoApproved")
        assert condition["message"] == "Auto approving kubelet client certificate after SubjectAccessReview."
        issued = certificate(request)
        assert issued.subject.rfc4514_string() == "CN=system:node:n1,O=system:nodes"
        assert issued.public_key() == KEY.public_key()
        assert issued_by(base64.b64decode(request["status"]["certificate"]), AUTHORITY)
        usage = issued.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
        constraints = issued.extensions.get_extension_for_class(x509.BasicConstraints).value
        assert constraints.ca is False


async def test_a_kubelet_renews_its_own_certificate_but_not_another_ones() -> None:
    node = {"username": "system:node:n1", "groups": ["system:nodes"]}
    async with cluster() as place:
        assert "certificate" in (await create(place, node))["status"]
    async with cluster() as place:
        other = certificate_request("system:node:n2", ["system:nodes"])
        assert (await create(place, node, request=other)).get("status", {}) == {}


@pytest.mark.parametrize(
    "spec",
    [
        {"username": "joe", "groups": ["dev"]},
        {"usages": ["client auth"]},
        {"request": certificate_request("system:node:n1", ["system:masters"])},
        {"request": certificate_request("joe", ["system:nodes"])},
        {"request": certificate_request("system:node:n1", ["system:nodes"], dns=["n1"])},
        {"signerName": KUBELET_SERVING},
        {"signerName": CLIENT},
    ],
)
async def test_other_requests_wait_for_an_administrator(spec: Manifest) -> None:
    async with cluster() as place:
        assert not (await create(place, **spec)).get("status")


async def test_an_approved_user_gets_a_client_certificate() -> None:
    async with cluster() as place:
        await create(
            place,
            signerName=CLIENT,
            usages=["client auth"],
            request=certificate_request("jane", ["dev"]),
            expirationSeconds=7200,
        )
        issued = certificate(await approve(place))
        end = issued.not_valid_after_utc.timestamp()
        assert end == pytest.approx(place.clock.now().wall + 7200, abs=2)


async def test_an_approved_kubelet_gets_a_serving_certificate_for_its_names() -> None:
    async with cluster() as place:
        request = certificate_request("system:node:n1", ["system:nodes"], dns=["n1"], addresses=["10.0.0.1"])
        await create(
            place, signerName=KUBELET_SERVING, usages=["digital signature", "server auth"], request=request
        )
        issued = certificate(await approve(place))
        names = issued.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.DNSName) == ["n1"]
        assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.1"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"signerName": CLIENT, "usages": ["client auth", "cert sign"]},
            "invalid usage for client certificate: cert sign",
        ),
        (
            {"signerName": CLIENT, "usages": ["digital signature"]},
            "missing required usage for client certificate: client auth",
        ),
        (
            {"signerName": KUBELET_SERVING, "usages": ["digital signature", "server auth"]},
            "DNS or IP subjectAltName is required",
        ),
        (
            {"signerName": KUBELET_CLIENT, "usages": ["client auth"]},
            "usages did not match [client auth digital signature key encipherment]",
        ),
    ],
)
async def test_an_approved_request_that_the_signer_does_not_accept_fails(
    spec: Manifest, message: str
) -> None:
    async with cluster() as place:
        await create(place, {"username": "joe", "groups": ["dev"]}, **spec)
        request = await approve(place)
        failed = request["status"]["conditions"][-1]
        assert (failed["type"], failed["reason"], failed["message"]) == (
            "Failed",
            "SignerValidationFailure",
            message,
        )
        assert "certificate" not in request["status"]


async def test_requests_of_other_signers_are_left_to_them() -> None:
    async with cluster() as place:
        await create(place, signerName="example.com/signer")
        request = await approve(place)
        assert [each["type"] for each in request["status"]["conditions"]] == ["Approved"]
        assert "certificate" not in request["status"]


async def test_denied_requests_get_no_certificate() -> None:
    async with cluster() as place:
        await create(place, signerName=CLIENT, usages=["client auth"])
        assert "certificate" not in (await approve(place, "Denied"))["status"]


@pytest.mark.parametrize(
    ("decision", "kept"),
    [("issued", HOUR), ("Denied", HOUR), ("pending", 24 * HOUR), ("unissued", 24 * HOUR)],
)
async def test_old_requests_are_removed(decision: str, kept: float) -> None:
    async with cluster() as place:
        if decision == "issued":
            await create(place)
        else:
            await create(place, signerName="example.com/signer")
        if decision in ("Denied", "unissued"):
            await approve(place, "Denied" if decision == "Denied" else "Approved")
        await place.pass_time(kept - 60, step=kept / 4)
        await place.client.get(CSR, Key("", "c"))
        await place.pass_time(120, step=60)
        with pytest.raises(NotFound):
            await place.client.get(CSR, Key("", "c"))
