"""Health checks, /version and request metrics."""

from tests.apiserver.servers import TestServer
from volcano.apiserver.endpoints.health import Health, version_info
from volcano.base.http.messages import Request, Response


def ask(health: Health, path: str, **query: list[str]) -> Response:
    response = health.handle(Request("GET", path, dict(query)))
    assert response is not None
    return response


def test_a_healthy_server_answers_ok() -> None:
    assert ask(Health(), "/healthz").body == b"ok"


def test_verbose_names_every_check() -> None:
    health = Health(live={"store": lambda: ""})
    assert ask(health, "/livez", verbose=[""]).body == b"[+]ping ok\n[+]store ok\nlivez check passed\n"


def test_a_failing_check_fails_what_it_belongs_to() -> None:
    health = Health(live={"store": lambda: ""}, ready={"scheduler": lambda: "not started"})
    assert ask(health, "/livez").status == 200
    unready = ask(health, "/readyz")
    assert unready.status == 500
    assert b"[-]scheduler failed: not started" in unready.body
    assert ask(health, "/readyz/scheduler").status == 500
    assert ask(health, "/readyz/store").body == b"ok"
    assert ask(health, "/readyz", exclude=["scheduler"]).status == 200


def test_other_paths_are_not_handled() -> None:
    assert Health().handle(Request("GET", "/metrics")) is None


async def test_an_unknown_check_is_not_found() -> None:
    server = await TestServer().start()
    assert (await server.get("/healthz/nothing")).code == 404


def test_the_version_names_kubernetes_and_volcano() -> None:
    info = version_info("0.1.0")
    assert (info["major"], info["minor"], info["gitVersion"]) == ("1", "36", "v1.36.1+volcano.0.1.0")


async def test_requests_are_counted_by_verb_resource_and_code() -> None:
    server = await TestServer().start()
    await server.get("/api/v1/namespaces")
    await server.get("/api/v1/namespaces/none")
    await server.get("/apis/made/up/things")
    text = (await server.get("/metrics")).body.decode()
    lines = [line for line in text.splitlines() if line.startswith("apiserver_request_total")]

    def count(code: int, scope: str, verb: str) -> float:
        wanted = (f'code="{code}"', 'resource="namespaces"', f'scope="{scope}"', f'verb="{verb}"')
        (line,) = (line for line in lines if all(part in line for part in wanted))
        return float(line.rpartition(" ")[2])

    assert count(200, "cluster", "LIST") == 1
    assert count(404, "resource", "GET") == 1
    assert "made" not in text, "clients must not be able to make up labels"
    assert "apiserver_request_duration_seconds_bucket" in text
