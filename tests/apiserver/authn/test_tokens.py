"""ServiceAccount tokens: made, checked, bound, and gone with what they belong to."""

import base64
import json
from typing import Any

import pytest

from tests.apiserver.servers import ADMIN_TOKEN, SIGNING_KEY, TestServer
from volcano.apiserver.authn.tokens import BadToken, SigningKey, new_signing_key
from volcano.kube.api.manifest import Manifest

TOKEN_PATH = "/api/v1/namespaces/default/serviceaccounts/robot/token"
REVIEW_PATH = "/apis/authentication.k8s.io/v1/tokenreviews"


def account(name: str = "robot") -> Manifest:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}}


def claims_of(token: str) -> Any:
    part = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


@pytest.fixture
async def server() -> TestServer:
    server = await TestServer().start()
    await server.made("/api/v1/namespaces/default/serviceaccounts", account())
    return server


async def token_for(server: TestServer, **spec: Any) -> str:
    made = await server.made(
        TOKEN_PATH, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    )
    return str(made["status"]["token"])


async def whoami(server: TestServer, token: str) -> Any:
    answered = await server.post(
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
        token=token,
    )
    return answered.json["status"]["userInfo"] if answered.code == 201 else answered.code


async def test_a_requested_token_makes_its_bearer_the_service_account(server: TestServer) -> None:
    user = await whoami(server, await token_for(server))
    assert user["username"] == "system:serviceaccount:default:robot"
    assert user["groups"] == [
        "system:serviceaccounts",
        "system:serviceaccounts:default",
        "system:authenticated",
    ]
    assert user["extra"]["authentication.kubernetes.io/credential-id"][0].startswith("JTI=")


async def test_a_token_expires(server: TestServer) -> None:
    token = await token_for(server, expirationSeconds=600)
    assert claims_of(token)["exp"] - claims_of(token)["iat"] == 600
    server.clock.advance(599)
    assert await whoami(server, token) != 401
    server.clock.advance(2)
    assert await whoami(server, token) == 401


async def test_a_token_dies_with_its_service_account(server: TestServer) -> None:
    token = await token_for(server)
    await server.ask("DELETE", "/api/v1/namespaces/default/serviceaccounts/robot")
    assert await whoami(server, token) == 401
    await server.made("/api/v1/namespaces/default/serviceaccounts", account())
    assert await whoami(server, token) == 401, "a new account of the same name is another user"


async def test_a_token_bound_to_a_secret_dies_with_it(server: TestServer) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}}
    await server.made("/api/v1/namespaces/default/secrets", secret)
    token = await token_for(server, boundObjectRef={"apiVersion": "v1", "kind": "Secret", "name": "s"})
    assert await whoami(server, token) != 401
    await server.ask("DELETE", "/api/v1/namespaces/default/secrets/s")
    assert await whoami(server, token) == 401


async def test_a_token_for_somebody_else_does_not_work_here(server: TestServer) -> None:
    token = await token_for(server, audiences=["vault"])
    assert await whoami(server, token) == 401
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    refused = await server.post(REVIEW_PATH, review)
    assert refused.json["status"].get("authenticated") is None
    review["spec"] = {"token": token, "audiences": ["vault", "other"]}
    accepted = (await server.post(REVIEW_PATH, review)).json["status"]
    assert (accepted["authenticated"], accepted["audiences"]) == (True, ["vault"])
    assert accepted["user"]["username"] == "system:serviceaccount:default:robot"


async def test_reviews_know_the_admin_and_refuse_nonsense(server: TestServer) -> None:
    async def review(token: str) -> Any:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        return (await server.post(REVIEW_PATH, body)).json["status"]

    assert (await review(ADMIN_TOKEN))["user"]["username"] == "kubernetes-admin"
    assert "invalid bearer token" in (await review("nonsense"))["error"]


@pytest.mark.parametrize(
    ("spec", "code", "message"),
    [
        ({"expirationSeconds": 10}, 422, "may not specify a duration less than 10 minutes"),
        ({"expirationSeconds": 2**40}, 422, "may not specify a duration larger than 2^32 seconds"),
        ({"boundObjectRef": {"kind": "Pod", "name": "none"}}, 404, 'pods "none" not found'),
        ({"boundObjectRef": {"kind": "Deployment", "name": "d"}}, 400, "cannot bind token"),
    ],
)
async def test_impossible_token_requests_are_refused(
    server: TestServer, spec: Any, code: int, message: str
) -> None:
    answered = await server.post(TOKEN_PATH, {"spec": spec})
    assert answered.code == code
    assert message in answered.message


async def test_no_token_for_an_account_that_does_not_exist(server: TestServer) -> None:
    answered = await server.post(TOKEN_PATH.replace("robot", "missing"), {})
    assert (answered.code, answered.message) == (404, 'serviceaccounts "missing" not found')


async def test_a_token_secret_is_filled_in(server: TestServer) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/service-account-token",
        "metadata": {
            "name": "robot-token",
            "namespace": "default",
            "annotations": {"kubernetes.io/service-account.name": "robot"},
        },
    }
    made = await server.made("/api/v1/namespaces/default/secrets", secret)
    data = {name: base64.b64decode(value).decode() for name, value in made["data"].items()}
    assert (data["namespace"], data["ca.crt"]) == ("default", "the CA")
    assert (await whoami(server, data["token"]))["username"] == "system:serviceaccount:default:robot"
    await server.ask("DELETE", "/api/v1/namespaces/default/secrets/robot-token")
    assert await whoami(server, data["token"]) == 401


def test_only_the_key_that_signed_accepts() -> None:
    ours, other = SigningKey(SIGNING_KEY), SigningKey(new_signing_key())
    token = ours.sign({"iss": "x"})
    assert ours.claims(token) == {"iss": "x"}
    with pytest.raises(BadToken):
        other.claims(token)


@pytest.mark.parametrize(
    "change", [lambda t: t[:-4] + "AAAA", lambda t: "x" + t, lambda t: t + ".x", lambda t: "..", str.upper]
)
def test_tampered_tokens_are_refused(change: Any) -> None:
    key = SigningKey(SIGNING_KEY)
    with pytest.raises(BadToken):
        key.claims(change(key.sign({"iss": "x"})))


def test_an_unsigned_token_is_refused() -> None:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    forged = f"{part({'alg': 'none'})}.{part({'iss': 'x'})}."
    with pytest.raises(BadToken):
        SigningKey(SIGNING_KEY).claims(forged)


async def test_the_public_key_is_published(server: TestServer) -> None:
    issuer = (await server.get("/.well-known/openid-configuration")).json
    keys = (await server.get("/openid/v1/jwks")).json["keys"]
    assert issuer["id_token_signing_alg_values_supported"] == ["ES256"]
    assert keys[0]["kid"] == SigningKey(SIGNING_KEY).id
