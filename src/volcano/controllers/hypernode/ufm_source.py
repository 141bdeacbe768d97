"""Source `ufm`: HyperNodes from the ports that a UFM server (NVIDIA's manager of InfiniBand networks) lists."""

import asyncio
import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import orjson

from volcano.base.http.client_connection import RequestFailed
from volcano.base.http.pool import ConnectionPool
from volcano.base.http.tls_context import client_context, is_certificate
from volcano.base.log import Log
from volcano.controllers.hypernode.configuration import UfmSource
from volcano.controllers.hypernode.discovered import Discovered
from volcano.kube.api.errors import BadRequest, Unavailable
from volcano.kube.api.kinds import SECRET
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import Client

log = Log("hypernode")

PORTS = "/ufmRest/resources/ports"
TIMEOUT = 30.0
MAX_BODY = 100 << 20
COMPUTER = "Computer"
# Links between switches and nodes, in the result of a poll.
LINKS = "links"
SPINE = "spine-hn"
_NODE_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")


async def poll(source: UfmSource, client: Client) -> Manifest:
    """Reads the Secret and the ports; returns the links between switches and nodes. Raises an ApiError."""
    secret = await client.get(SECRET, source.secret)
    username, password = (_value(secret, key, source) for key in ("username", "password"))
    authority = _value(secret, "ca.crt", source, required=False)
    if authority and not is_certificate(authority):
        raise BadRequest(f"secret {source.secret}: ca.crt contains no certificate; it must be in PEM format")
    credentials = base64.b64encode(username + b":" + password).decode()
    pool = ConnectionPool(
        source.endpoint, tls=client_context(authority or None, insecure=not source.verify), connections=1
    )
    address = source.endpoint + PORTS
    try:
        async with asyncio.timeout(TIMEOUT):
            body = await _get(pool, _path(source), {"Authorization": f"Basic {credentials}"}, address)
    except TimeoutError:
        raise Unavailable(f"UFM server did not answer {address} within {TIMEOUT:g} seconds") from None
    except RequestFailed as error:
        raise Unavailable(f"UFM server cannot be reached: {error}") from error
    finally:
        await pool.close()
    return {LINKS: await asyncio.to_thread(_links, body, address)}


async def _get(pool: ConnectionPool, target: str, headers: Mapping[str, str], address: str) -> bytes:
    """The body of a 200 answer, read up to its limit."""
    body = bytearray()
    headers = {"Accept": "application/json", **headers}
    async with pool.stream("GET", target, headers, timeout=TIMEOUT) as reply:
        if reply.status != 200:
            raise Unavailable(f"UFM server answered GET {address} with status {reply.status} instead of 200")
        while part := await reply.body.read():
            body += part
            if len(body) > MAX_BODY:
                text = f"UFM server answered GET {address} with more than {MAX_BODY >> 20} MiB"
                raise Unavailable(text)
    return bytes(body)


def _path(source: UfmSource) -> str:
    """The path of the request; an endpoint may have a path of its own, as behind a proxy."""
    return urlsplit(source.endpoint).path + PORTS


def _value(secret: Manifest, key: str, source: UfmSource, *, required: bool = True) -> bytes:
    encoded = (secret.get("data") or {}).get(key) or ""
    try:
        value = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadRequest(f"secret {source.secret}: {key} is not base64: {error}") from error
    if required and not value:
        text = f"secret {source.secret}: UFM authentication credentials are not configured; set the key {key}"
        raise BadRequest(text)
    return value


def _links(body: bytes, address: str) -> list[tuple[str, str]]:
    """The links of the ports of computers: switch and node."""
    try:
        ports = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Unavailable(
            f"UFM server answered GET {address} with a body that is not JSON: {error}"
        ) from error
    if not isinstance(ports, list):
        raise Unavailable(
            f"UFM server answered GET {address} with a {type(ports).__name__} instead of a list"
        )
    return sorted(set(_computer_links(ports)))


def _computer_links(ports: Iterable[Any]) -> Iterator[tuple[str, str]]:
    skipped: set[str] = set()
    for port in ports:
        if not isinstance(port, dict) or COMPUTER not in str(port.get("description") or ""):
            continue
        switch, node = str(port.get("peer_node_name") or ""), str(port.get("system_name") or "")
        if switch and _NODE_NAME.fullmatch(node):
            yield switch, node
        elif node:
            skipped.add(node)
    if skipped:
        log.warning(
            "ports skipped: system name is no node name, or no switch is named",
            count=len(skipped),
            first=min(skipped)[:100],
        )


def hyper_nodes(links: Iterable[tuple[str, str]]) -> list[Discovered]:
    """One leaf per group of switches that share nodes, transitively, and a spine over all leaves."""
    nodes_of: dict[str, set[str]] = {}
    for switch, node in links:
        nodes_of.setdefault(switch, set()).add(node)
    leaves = [
        Discovered(f"leaf-hn-{index}", 1, sorted(nodes), of_nodes=True)
        for index, nodes in enumerate(_groups(nodes_of))
    ]
    if not leaves:
        return []
    return [*leaves, Discovered(SPINE, 2, [leaf.name for leaf in leaves], of_nodes=False)]


def _groups(nodes_of: Mapping[str, set[str]]) -> Iterator[set[str]]:
    """Nodes of each group of switches, in the order of the group's first switch by name."""
    switches_of: dict[str, list[str]] = {}
    for switch, nodes in nodes_of.items():
        for node in nodes:
            switches_of.setdefault(node, []).append(switch)
    seen: set[str] = set()
    for first in sorted(nodes_of):
        if first in seen:
            continue
        seen.add(first)
        group, pending = set[str](), [first]
        while pending:
            for node in nodes_of[pending.pop()] - group:
                group.add(node)
                fresh = [switch for switch in switches_of[node] if switch not in seen]
                seen.update(fresh)
                pending += fresh
        yield group
