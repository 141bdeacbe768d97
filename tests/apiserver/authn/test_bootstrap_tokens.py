"""Bootstrap tokens: the first credential of a new node."""

from typing import Any

import pytest

from tests.apiserver.servers import TestServer
from tests.base.http.requests import certificate_request

TOKEN = "abcdef.0123456789abcdef"
SECRETS = "/api/v1/namespaces/kube-system/secrets"
REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


async def server_with_token(
    *, name: str = "bootstrap-token-abcdef", type_: str = "bootstrap.kubernetes.io/token", **data: Any
) -> TestServer:
    server = await TestServer().start()
    content = {
        "token-id": "abcdef",
        "token-secret": "0123456789abcdef",
        "usage-bootstrap-authentication": "true",
        **{key.replace("_", "-"): value for key, value in data.items()},
    }
    await server.made(SECRETS, {"metadata": {"name": name}, "type": type_, "stringData": content})
    return server


async def test_a_bootstrap_token_authenticates_a_new_node() -> None:
    server = await server_with_token(
        auth_extra_groups="system:bootstrappers:workers", expiration="2100-01-01T00:00:00Z"
    )
    answered = await server.post(REVIEW, {}, token=TOKEN)
    assert answered.json["status"]["userInfo"] == {
        "username": "system:bootstrap:abcdef",
        "groups": ["system:bootstrappers", "system:bootstrappers:workers", "system:authenticated"],
    }


async def test_its_user_may_request_certificates_and_nothing_else() -> None:
    server = await server_with_token()
    request = {
        "metadata": {"name": "n1"},
        "spec": {
            "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["digital signature", "client auth"],
            "request": certificate_request("system:node:n1", ["system:nodes"]),
        },
    }
    assert (await server.post(REQUESTS, request, token=TOKEN)).code == 201
    assert (await server.get(f"{REQUESTS}/n1", token=TOKEN)).code == 200
    for path in (SECRETS, "/api/v1/nodes", "/api/v1/pods"):
        assert (await server.get(path, token=TOKEN)).code == 403


@pytest.mark.parametrize(
    "data",
    [
        {"token_secret": "ffffffffffffffff"},
        {"token_id": "ffffff"},
        {"name": "bootstrap-token-other0"},
        {"type_": "Opaque"},
        {"usage_bootstrap_authentication": "false"},
        {"expiration": "2001-01-01T00:00:00Z"},
        {"expiration": "soon"},
        {"auth_extra_groups": "system:masters"},
    ],
)
async def test_other_secrets_are_no_credentials(data: dict[str, str]) -> None:
    server = await server_with_token(**data)
    assert (await server.post(REVIEW, {}, token=TOKEN)).code == 401


async def test_a_removed_token_is_invalid_at_once() -> None:
    server = await server_with_token()
    assert (await server.post(REVIEW, {}, token=TOKEN)).code == 201
    await server.ask("DELETE", f"{SECRETS}/bootstrap-token-abcdef")
    assert (await server.post(REVIEW, {}, token=TOKEN)).code == 401
