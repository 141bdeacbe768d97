"""Who is asking, and on whose behalf."""

import pytest

from tests.apiserver.servers import TestServer
from volcano.apiserver.interfaces import User
from volcano.base.http.messages import Peer

JOE = User("joe", ("dev", "system:authenticated"))
BOSS = User("boss", ("system:masters", "system:authenticated"))


@pytest.fixture
async def server() -> TestServer:
    return await TestServer(tokens={"joes": JOE, "boss": BOSS}).start()


async def whoami(server: TestServer, **more: str) -> tuple[str, list[str]]:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answered = await server.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", body, **more)
    assert answered.code == 201, answered.body
    user = answered.json["status"]["userInfo"]
    return user["username"], user["groups"]


@pytest.mark.parametrize(
    "credentials",
    [
        pytest.param({"token": ""}, id="none"),
        pytest.param({"token": "wrong"}, id="a wrong token"),
        pytest.param({"token": "", "authorization": "Basic am9lOnB3"}, id="a password"),
        pytest.param({"token": "", "authorization": "Bearer"}, id="an empty token"),
        pytest.param({"token": "", "authorization": "Bearer a.b.c"}, id="something like a JWT"),
    ],
)
async def test_without_good_credentials_nothing_is_said(
    server: TestServer, credentials: dict[str, str]
) -> None:
    for path in ("/api/v1/namespaces", "/api", "/metrics", "/", "/openapi/v3"):
        answered = await server.get(path, **credentials)
        assert (answered.code, answered.json["reason"]) == (401, "Unauthorized")


async def test_everybody_may_ask_whether_the_server_is_alive(server: TestServer) -> None:
    for path in ("/healthz", "/livez", "/readyz", "/version", "/version/"):
        assert (await server.get(path, token="")).code == 200


async def test_known_tokens_and_certificates_say_who_somebody_is(server: TestServer) -> None:
    assert await whoami(server, token="joes") == ("joe", ["dev", "system:authenticated"])
    answered = await server.ask(
        "POST",
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        {},
        token="",
        peer=Peer("10.0.0.1:1", "ann", ("ops",)),
    )
    user = answered.json["status"]["userInfo"]
    assert (user["username"], user["groups"]) == ("ann", ["ops", "system:authenticated"])


async def test_somebody_with_the_right_may_act_as_others(server: TestServer) -> None:
    more = {"impersonate_user": "ann", "impersonate_group": "ops, dev"}
    assert await whoami(server, token="boss", **more) == ("ann", ["ops", "dev", "system:authenticated"])
    name = "system:serviceaccount:ns:robot"
    assert await whoami(server, token="boss", impersonate_user=name) == (
        name,
        ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"],
    )


async def test_nobody_else_may(server: TestServer) -> None:
    answered = await server.get("/api/v1/namespaces", token="joes", impersonate_user="ann")
    assert answered.code == 403
    assert answered.message == (
        'users "ann" is forbidden: User "joe" cannot impersonate resource "users" in API group "" at the cluster scope'
    )


async def test_acting_as_a_group_alone_makes_no_sense(server: TestServer) -> None:
    assert (await server.get("/api/v1/namespaces", token="boss", impersonate_group="ops")).code in (
        400,
        401,
        500,
    )


async def test_acting_as_somebody_means_having_only_their_rights(server: TestServer) -> None:
    answered = await server.get("/api/v1/secrets", token="boss", impersonate_user="ann")
    assert answered.message == (
        'secrets is forbidden: User "ann" cannot list resource "secrets" in API group "" at the cluster scope'
    )
