"""Logs of pods, and connections to them."""

import json
from collections.abc import AsyncIterator

import pytest

from tests.apiserver.registries import pod
from tests.apiserver.servers import TestServer
from volcano.apiserver.interfaces import LogOptions, User
from volcano.base.http.messages import Answer, Request, Response
from volcano.kube.api.errors import BadRequest
from volcano.kube.api.manifest import Manifest

PODS = "/api/v1/namespaces/default/pods"


class Recorder:
    """A log source that records its options and returns a few lines."""

    def __init__(self) -> None:
        self.requested: list[LogOptions] = []

    async def open_log(self, pod: Manifest, options: LogOptions) -> AsyncIterator[bytes]:
        self.requested.append(options)
        if options.previous:
            raise BadRequest(f'previous terminated container "{options.container}" in pod "web" not found')
        return self._lines()

    async def _lines(self) -> AsyncIterator[bytes]:
        yield b"one\n"
        yield b"two\n"


@pytest.fixture
async def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
async def server(recorder: Recorder) -> TestServer:
    server = await TestServer(logs=recorder).start()
    two = [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]
    await server.made(PODS, pod("web", nodeName="n1"))
    await server.made(PODS, pod("twin", nodeName="n1", containers=two))
    await server.made(PODS, pod("waiting"))
    return server


async def read(server: TestServer, target: str) -> bytes:
    stream = await server.stream(target)
    assert stream.headers["Content-Type"] == "text/plain"
    return b"".join([chunk async for chunk in stream.chunks])


async def test_a_log_is_streamed(server: TestServer) -> None:
    assert await read(server, f"{PODS}/web/log") == b"one\ntwo\n"


async def test_parameters_reach_the_log_source(server: TestServer, recorder: Recorder) -> None:
    await read(server, f"{PODS}/twin/log?container=b&follow=true&tailLines=5&sinceSeconds=10&timestamps=1")
    now = server.clock.now().wall
    assert recorder.requested == [LogOptions("b", True, False, 5, now - 10, True, None)]


async def test_a_limit_cuts_the_log(server: TestServer) -> None:
    assert await read(server, f"{PODS}/web/log?limitBytes=6") == b"one\ntw"


async def test_a_pod_that_is_nowhere_has_an_empty_log(server: TestServer) -> None:
    assert await read(server, f"{PODS}/waiting/log") == b""


@pytest.mark.parametrize(
    ("target", "code", "message"),
    [
        ("none/log", 404, 'pods "none" not found'),
        ("twin/log", 400, "a container name must be specified for pod twin, choose one of: [a b]"),
        ("web/log?container=x", 400, "container x is not valid for pod web"),
        ("web/log?tailLines=-1", 422, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ("web/log?limitBytes=0", 422, "limitBytes: Invalid value: 0: must be greater than 0"),
        ("web/log?sinceSeconds=0", 422, "sinceSeconds: Invalid value: 0: must be greater than 0"),
        (
            "web/log?sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z",
            422,
            "at most one of sinceTime or sinceSeconds",
        ),
        ("web/log?sinceTime=soon", 400, "RFC 3339"),
        (
            "web/log?stream=Both",
            422,
            'Unsupported value: "Both": supported values: "All", "Stdout", "Stderr"',
        ),
        ("web/log?stream=Stdout&tailLines=1", 422, "mutually exclusive"),
        ("web/log?previous=true", 400, 'previous terminated container "main" in pod "web" not found'),
    ],
)
async def test_impossible_wishes_are_rejected(
    server: TestServer, target: str, code: int, message: str
) -> None:
    response = await server.get(f"{PODS}/{target}")
    assert response.code == code
    assert message in response.message


async def test_a_simulated_pod_has_no_process_to_talk_to(server: TestServer) -> None:
    for subresource in ("exec", "attach", "portforward"):
        response = await server.post(f"{PODS}/web/{subresource}?command=ls", b"")
        assert response.code == 501
        assert "simulated node" in response.message


async def test_one_of_two_streams_can_be_selected(server: TestServer, recorder: Recorder) -> None:
    await read(server, f"{PODS}/web/log?stream=Stderr")
    await read(server, f"{PODS}/web/log?stream=All")
    assert [options.stream for options in recorder.requested] == ["stderr", ""]


async def test_the_log_source_is_closed_when_the_client_leaves(recorder: Recorder) -> None:
    closed: list[str] = []

    async def endless() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"more\n"
        finally:
            closed.append("closed")

    recorder._lines = endless  # type: ignore[method-assign]
    server = await TestServer(logs=recorder).start()
    await server.made(PODS, pod("web", nodeName="n1"))
    assert await read(server, f"{PODS}/web/log?follow=true&limitBytes=8") == b"more\nmor"
    assert closed == ["closed"]


class Shell:
    """Returns the subresource and container of every connection."""

    async def connect(self, subresource: str, pod: Manifest, request: Request) -> Answer:
        return Response(200, {}, f"{subresource} {pod['metadata']['name']}".encode())


async def test_connecting_needs_the_right_to_create_even_when_it_begins_with_get() -> None:
    server = await TestServer(tokens={"joes": User("joe")}, streams=Shell()).start()
    await server.made(PODS, pod("web", nodeName="n1"))
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"

    async def may(*verbs: str) -> None:
        rule = {"apiGroups": [""], "resources": ["pods/exec", "pods/portforward"], "verbs": list(verbs)}
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}}
        await server.ask("DELETE", f"{rbac}/roles/r")
        await server.made(f"{rbac}/roles", {**role, "rules": [rule]})

    await server.made(
        f"{rbac}/rolebindings",
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "b"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "joe"}],
        },
    )
    for verbs, code in ((["get"], 403), (["create"], 403), (["get", "create"], 200)):
        await may(*verbs)
        for subresource in ("exec", "portforward"):
            response = await server.get(f"{PODS}/web/{subresource}?command=ls", token="joes")
            assert response.code == code, (verbs, subresource)
    await may("create")
    assert (await server.post(f"{PODS}/web/exec?command=ls", b"", token="joes")).code == 200
    line = json.loads(server.audit[-1])
    assert (line["verb"], line["objectRef"]["subresource"], line["user"]["username"]) == (
        "create",
        "exec",
        "joe",
    )


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("waiting/exec?command=ls", "pod waiting does not have a host assigned"),
        ("waiting/portforward", "pod waiting does not have a host assigned"),
        ("web/exec?command=ls&container=x", "container x is not valid for pod web"),
        ("twin/attach", "a container name must be specified for pod twin, choose one of: [a b]"),
    ],
)
async def test_there_must_be_something_to_connect_with(server: TestServer, target: str, message: str) -> None:
    response = await server.get(f"{PODS}/{target}")
    assert (response.code, response.message) == (400, message)


async def test_the_stream_source_handles_the_connection() -> None:
    server = await TestServer(streams=Shell()).start()
    await server.made(PODS, pod("web", nodeName="n1"))
    assert (await server.get(f"{PODS}/web/exec?command=ls")).body == b"exec web"
