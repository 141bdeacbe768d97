"""Leaves and a spine are discovered from a UFM server over verified HTTPS, within limits."""

import base64
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster import SmallCluster
from tests.controllers.hypernode.ufm_server import UfmServer, port, ufm_server
from volcano.controllers.hypernode import ufm_source
from volcano.controllers.hypernode.configuration import UfmSource
from volcano.controllers.hypernode.ufm_source import LINKS, hyper_nodes, poll
from volcano.kube.api.errors import ApiError
from volcano.kube.api.kinds import SECRET
from volcano.kube.api.manifest import Key


def shape(links: list[tuple[str, str]]) -> dict[str, list[str]]:
    return {found.name: list(found.members) for found in hyper_nodes(links)}


def test_switches_that_share_a_node_are_one_leaf() -> None:
    links = [("sw1", "n0"), ("sw1", "n1"), ("sw2", "n1"), ("sw3", "n2")]
    assert shape(links) == {
        "leaf-hn-0": ["n0", "n1"],
        "leaf-hn-1": ["n2"],
        "spine-hn": ["leaf-hn-0", "leaf-hn-1"],
    }


def test_no_links_are_no_hypernodes() -> None:
    assert hyper_nodes([]) == []


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("uvwxyz")), max_size=20))
def test_each_node_is_in_exactly_one_leaf_and_linked_ones_are_together(links: list[tuple[str, str]]) -> None:
    leaves = [set(found.members) for found in hyper_nodes(links) if found.tier == 1]
    assert sorted(node for leaf in leaves for node in leaf) == sorted({node for _, node in links})
    for switch in {switch for switch, _ in links}:
        nodes = {node for other, node in links if other == switch}
        assert any(nodes <= leaf for leaf in leaves)


async def asked(
    server: UfmServer, secret: dict[str, str] | None = None, *, path: str = "", verify: bool = True
) -> list[tuple[str, str]]:
    source = UfmSource(server.url + path, Key("default", "ufm"), verify=verify)
    async with SmallCluster() as cluster:
        if secret is not None:
            await cluster.create(SECRET, "ufm", data=secret)
        answer = await poll(source, cluster.client)
        links: list[tuple[str, str]] = answer[LINKS]
        return links


async def test_links_of_computers_are_read() -> None:
    async with ufm_server() as server:
        assert await asked(server, server.secret) == [
            ("sw1", "n0"),
            ("sw1", "n1"),
            ("sw2", "n1"),
            ("sw3", "n2"),
        ]
        assert server.requests == ["/ufmRest/resources/ports"]
        assert await asked(server, server.secret, path="/behind/a/proxy")
        assert server.requests[1:] == ["/behind/a/proxy/ufmRest/resources/ports"]


async def test_names_that_no_node_can_have_are_skipped() -> None:
    async with ufm_server() as server:
        server.ports = [port("n0", "sw1"), port("Node 7!", "sw1"), port("n1", ""), "text", {"description": 7}]
        assert await asked(server, server.secret) == [("sw1", "n0")]


async def test_an_unknown_certificate_is_rejected_unless_told_otherwise() -> None:
    async with ufm_server() as server:
        without_authority = {key: value for key, value in server.secret.items() if key != "ca.crt"}
        with pytest.raises(ApiError, match="is not trusted"):
            await asked(server, without_authority)
        assert server.requests == []
        assert await asked(server, without_authority, verify=False)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (None, 'secrets "ufm" not found'),
        (
            {"password": ""},
            "secret default/ufm: UFM authentication credentials are not configured; set the key password",
        ),
        ({"username": encoded("other")}, "with status 401 instead of 200"),
        ({"ca.crt": encoded("no certificate")}, "ca.crt contains no certificate"),
    ],
    ids=["no secret", "no password", "wrong user", "bad authority"],
)
async def test_bad_credentials_are_named(change: dict[str, str] | None, message: str) -> None:
    async with ufm_server() as server:
        secret = None if change is None else {**server.secret, **change}
        with pytest.raises(ApiError, match=message):
            await asked(server, secret)


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (500, b"[]", "with status 500 instead of 200"),
        (302, b"[]", "with status 302 instead of 200"),
        (200, b"{}", "with a dict instead of a list"),
        (200, b"[", "with a body that is not JSON"),
    ],
)
async def test_another_answer_than_a_list_is_an_error(status: int, body: bytes, message: str) -> None:
    async with ufm_server() as server:
        server.status, server.body = status, body
        with pytest.raises(ApiError, match=message):
            await asked(server, server.secret)


async def test_a_body_beyond_the_limit_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ufm_source, "MAX_BODY", 1 << 20)
    async with ufm_server() as server:
        server.body = b"[" + b" " * (1 << 20) + b"]"
        with pytest.raises(ApiError, match="with more than 1 MiB"):
            await asked(server, server.secret)


async def test_a_server_that_cannot_be_reached_is_an_error() -> None:
    async with ufm_server() as server:
        gone = replace(UfmSource(server.url, Key("default", "ufm")))
        secret = server.secret
    async with SmallCluster() as cluster:
        await cluster.create(SECRET, "ufm", data=secret)
        with pytest.raises(ApiError, match="UFM server cannot be reached: cannot connect"):
            await poll(gone, cluster.client)


async def test_a_server_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ufm_source, "TIMEOUT", 0.2)
    async with ufm_server() as server:
        server.delay = 5.0
        with pytest.raises(ApiError, match=r"within 0.2 seconds|cannot be reached"):
            await asked(server, server.secret)
