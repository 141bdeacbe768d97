"""The HTTP client sends the requests that a real API server expects, and retries only where that is safe."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import orjson
import pytest

from tests.kube.client.conftest import PatientClock, Script, json, refusal, stream
from volcano.base.http.messages import Request, Response, Stream
from volcano.base.http.pool import ConnectionPool
from volcano.base.http.server import Server
from volcano.kube.api import errors
from volcano.kube.api.kinds import JOB, NODE, POD
from volcano.kube.api.manifest import Key
from volcano.kube.client.credentials import bearer
from volcano.kube.client.flowcontrol import RateLimiter
from volcano.kube.client.http import HttpClient
from volcano.kube.client.protocol import Client, Event, EventType, Options, PatchType, Query

WEB = Key("shop", "web")
POD_MANIFEST = {"metadata": {"namespace": "shop", "name": "web"}}


async def test_it_is_a_client(client: HttpClient) -> None:
    protocol: Client = client
    assert protocol is client


@pytest.mark.parametrize(
    ("call", "asked"),
    [
        pytest.param(lambda c: c.get(POD, WEB), "GET /api/v1/namespaces/shop/pods/web", id="get"),
        pytest.param(
            lambda c: c.get(POD, WEB, subresource="status"),
            "GET /api/v1/namespaces/shop/pods/web/status",
            id="get a subresource",
        ),
        pytest.param(
            lambda c: c.get(NODE, Key("", "n/1")), "GET /api/v1/nodes/n%2F1", id="get of the cluster"
        ),
        pytest.param(
            lambda c: c.create(JOB, POD_MANIFEST),
            "POST /apis/batch.volcano.sh/v1alpha1/namespaces/shop/jobs",
            id="create",
        ),
        pytest.param(
            lambda c: c.create(POD, {"metadata": {"generateName": "w-"}}, options=Options(dry_run=True)),
            "POST /api/v1/namespaces/default/pods?dryRun=All",
            id="create where nothing is said",
        ),
        pytest.param(
            lambda c: c.create(POD, POD_MANIFEST, subresource="binding"),
            "POST /api/v1/namespaces/shop/pods/web/binding",
            id="bind",
        ),
        pytest.param(
            lambda c: c.update(
                POD,
                POD_MANIFEST,
                subresource="status",
                options=Options(field_manager="me", field_validation="Strict"),
            ),
            "PUT /api/v1/namespaces/shop/pods/web/status?fieldManager=me&fieldValidation=Strict",
            id="update",
        ),
        pytest.param(
            lambda c: c.patch(
                POD, WEB, {}, options=Options(patch_type=PatchType.APPLY, field_manager="me", force=True)
            ),
            "PATCH /api/v1/namespaces/shop/pods/web?fieldManager=me&force=true",
            id="apply",
        ),
        pytest.param(
            lambda c: c.patch(POD, WEB, {}, options=Options(force=True)),
            "PATCH /api/v1/namespaces/shop/pods/web",
            id="only applies are forced",
        ),
        pytest.param(lambda c: c.delete(POD, WEB), "DELETE /api/v1/namespaces/shop/pods/web", id="delete"),
    ],
)
async def test_each_verb_has_its_request(client: HttpClient, script: Script, call: Any, asked: str) -> None:
    script.answers = [json({"kind": "Pod"})]
    assert await call(client) == {"kind": "Pod"}
    assert script.asked == [asked]


@pytest.mark.parametrize(
    ("call", "content_type", "body"),
    [
        pytest.param(
            lambda c: c.create(POD, POD_MANIFEST),
            "application/json",
            {"apiVersion": "v1", "kind": "Pod", **POD_MANIFEST},
            id="a manifest says what it is",
        ),
        pytest.param(
            lambda c: c.create(POD, {**POD_MANIFEST, "target": {"name": "n1"}}, subresource="binding"),
            "application/json",
            {"apiVersion": "v1", "kind": "Binding", **POD_MANIFEST, "target": {"name": "n1"}},
            id="a binding is no pod",
        ),
        pytest.param(
            lambda c: c.patch(POD, WEB, {"a": 1}, options=Options(uid="u", resource_version="7")),
            "application/merge-patch+json",
            {"a": 1, "metadata": {"uid": "u", "resourceVersion": "7"}},
            id="a merge patch insists on the version",
        ),
        pytest.param(
            lambda c: c.patch(POD, WEB, [], options=Options(patch_type=PatchType.JSON, uid="u")),
            "application/json-patch+json",
            [{"op": "test", "path": "/metadata/uid", "value": "u"}],
            id="so does a JSON patch",
        ),
        pytest.param(
            lambda c: c.delete(
                POD,
                WEB,
                options=Options(
                    grace_seconds=0, propagation="Orphan", uid="u", resource_version="7", dry_run=True
                ),
            ),
            "application/json",
            {
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "gracePeriodSeconds": 0,
                "propagationPolicy": "Orphan",
                "preconditions": {"uid": "u", "resourceVersion": "7"},
                "dryRun": ["All"],
            },
            id="delete options",
        ),
    ],
)
async def test_bodies_carry_what_the_options_say(
    client: HttpClient, script: Script, call: Any, content_type: str, body: Any
) -> None:
    script.answers = [json({})]
    await call(client)
    request = script.requests[0]
    assert request.headers["content-type"] == content_type
    assert orjson.loads(request.body) == body


async def test_list_items_say_what_they_are_and_keep_their_version(
    client: HttpClient, script: Script
) -> None:
    script.answers = [
        json(
            {
                "kind": "PodList",
                "metadata": {"resourceVersion": "41", "continue": "next", "remainingItemCount": 5},
                "items": [POD_MANIFEST, {"kind": "Pod", **POD_MANIFEST}, {}],
            }
        )
    ]
    query = Query(namespace="shop", labels="a=b", fields="spec.nodeName=", limit=3, resource_version="0")
    listing = await client.list(POD, query)
    assert script.requests[0].query == {
        "labelSelector": ["a=b"],
        "fieldSelector": ["spec.nodeName="],
        "limit": ["3"],
        "resourceVersion": ["0"],
    }
    assert [item["kind"] for item in listing.items] == ["Pod", "Pod", "Pod"]
    assert listing.items[0] == {"apiVersion": "v1", "kind": "Pod", **POD_MANIFEST}
    assert (listing.resource_version, listing.continue_token, listing.remaining) == ("41", "next", 5)


class Metadata(msgspec.Struct):
    name: str


class Named(msgspec.Struct):
    metadata: Metadata


async def test_a_decoder_is_given_each_objects_own_bytes(client: HttpClient, script: Script) -> None:
    decoder = msgspec.json.Decoder(Named)
    script.answers = [json({"metadata": {"resourceVersion": "1"}, "items": [POD_MANIFEST] * 2})]
    listing = await client.list(POD, decode=decoder.decode)
    assert listing.items == [Named(Metadata("web"))] * 2


async def test_a_list_may_be_empty(client: HttpClient, script: Script) -> None:
    script.answers = [json({"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": None})]
    assert (await client.list(POD)).items == []


async def test_lists_can_be_fetched_in_pages(server: Server, script: Script, clock: PatientClock) -> None:
    def page(request: Request) -> Response:
        start = int(request.parameter("continue", "0"))
        names = [f"p{n}" for n in range(start, min(start + 2, 5))]
        more = {"continue": str(start + 2)} if start + 2 < 5 else {}
        return json(
            {
                "metadata": {"resourceVersion": "9", **more},
                "items": [{"metadata": {"name": n}} for n in names],
            }
        )

    script.answers = [page]
    client = HttpClient(ConnectionPool(server.url), clock, chance=lambda: 0, page=2)
    listing = await client.list(POD, Query(resource_version="0"))
    assert [item["metadata"]["name"] for item in listing.items] == ["p0", "p1", "p2", "p3", "p4"]
    assert listing.resource_version == "9"
    assert [request.query.get("resourceVersion") for request in script.requests] == [["0"], None, None]
    await client.close()


async def test_a_page_that_expired_means_one_list_of_everything(
    server: Server, script: Script, clock: PatientClock
) -> None:
    script.answers = [
        json({"metadata": {"resourceVersion": "1", "continue": "x"}, "items": [POD_MANIFEST]}),
        refusal(410, "Expired"),
        json({"metadata": {"resourceVersion": "2"}, "items": [POD_MANIFEST] * 3}),
    ]
    client = HttpClient(ConnectionPool(server.url), clock, chance=lambda: 0, page=1)
    assert len((await client.list(POD)).items) == 3
    assert "limit" not in script.requests[-1].query
    await client.close()


def event(kind: str, name: str) -> bytes:
    return (
        orjson.dumps({"type": kind, "object": {"metadata": {"name": name, "resourceVersion": "5"}}}) + b"\n"
    )


async def watched(client: HttpClient, query: Query = Query()) -> list[Event]:
    return [found async for found in client.watch(POD, query)]


async def test_a_watch_cuts_events_out_of_any_pieces(client: HttpClient, script: Script) -> None:
    lines = (
        event("ADDED", "a") + event("MODIFIED", "b") + b"\n" + event("DELETED", "c") + event("BOOKMARK", "")
    )
    for step in (1, 7, 50, len(lines)):
        script.answers = [stream(*(lines[at : at + step] for at in range(0, len(lines), step)))]
        events = await watched(client)
        assert [(e.type, e.object["metadata"]["name"]) for e in events] == [
            (EventType.ADDED, "a"),
            (EventType.MODIFIED, "b"),
            (EventType.DELETED, "c"),
            (EventType.BOOKMARK, ""),
        ]


async def test_events_before_an_error_in_the_same_read_are_passed_on_first(
    client: HttpClient, script: Script
) -> None:
    gone = orjson.dumps({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}})
    script.answers = [stream(event("ADDED", "a") + event("ADDED", "b") + gone + b"\n")]
    watching = client.watch_batches(POD)
    assert [e.object["metadata"]["name"] for e in await anext(watching)] == ["a", "b"]
    with pytest.raises(errors.Gone):
        await anext(watching)


async def test_a_watch_event_may_be_spelt_in_any_way(client: HttpClient, script: Script) -> None:
    script.answers = [stream(b'{ "object": {"metadata": {"name": "a"}}, "type": "ADDED" }\n')]
    events = await watched(client)
    assert (events[0].type, events[0].object["metadata"]["name"]) == (EventType.ADDED, "a")


async def test_a_watch_says_what_it_wants(client: HttpClient, script: Script) -> None:
    script.answers = [stream(b"")]
    await watched(client, Query(namespace="shop", labels="a", resource_version="7", bookmarks=False))
    await watched(client, Query(send_initial_events=True, timeout_seconds=9))
    assert script.requests[0].path == "/api/v1/namespaces/shop/pods"
    assert script.requests[0].query == {
        "watch": ["true"],
        "labelSelector": ["a"],
        "resourceVersion": ["7"],
        "timeoutSeconds": ["450"],
    }
    assert script.requests[1].query == {
        "watch": ["true"],
        "sendInitialEvents": ["true"],
        "resourceVersionMatch": ["NotOlderThan"],
        "allowWatchBookmarks": ["true"],
        "timeoutSeconds": ["9"],
    }


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(
            stream(
                b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}\n'
            ),
            id="inside the stream",
        ),
        pytest.param(refusal(410, "Expired", "too old"), id="instead of it"),
    ],
)
async def test_history_that_is_gone_is_said_so(client: HttpClient, script: Script, answer: Any) -> None:
    script.answers = [answer]
    with pytest.raises(errors.Gone, match="too old"):
        await watched(client)


async def test_a_watch_that_is_cut_off_makes_the_server_unavailable(
    client: HttpClient, script: Script
) -> None:
    async def half() -> AsyncIterator[bytes]:
        yield event("ADDED", "a") + b'{"type":"ADDED","obj'
        await asyncio.sleep(0)
        raise RuntimeError("cut")

    script.answers = [Stream(half())]
    watching = client.watch(POD)
    assert (await anext(watching)).object["metadata"]["name"] == "a"
    with pytest.raises(errors.Unavailable, match="closed the connection"):
        await anext(watching)


async def test_a_watch_that_falls_silent_is_given_up(
    server: Server, script: Script, clock: PatientClock
) -> None:
    async def one_and_no_more() -> AsyncIterator[bytes]:
        yield event("ADDED", "a")
        await asyncio.Event().wait()

    client = HttpClient(ConnectionPool(server.url), clock, chance=lambda: 0.5, silence=0.05)
    script.answers = [Stream(one_and_no_more())]
    watching = client.watch(POD)
    assert (await anext(watching)).object["metadata"]["name"] == "a"
    with pytest.raises(errors.Unavailable, match=r"was silent for 0\.05 seconds"):
        await anext(watching)
    await client.close()


async def test_leaving_a_watch_ends_it_at_the_server(client: HttpClient, script: Script) -> None:
    ended = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        try:
            while True:
                yield event("ADDED", "a")
                await asyncio.sleep(0.001)
        finally:
            ended.set()

    script.answers = [Stream(endless())]
    watching = client.watch(POD)
    async for _ in watching:
        break
    await watching.aclose()  # type: ignore[attr-defined]
    async with asyncio.timeout(5):
        await ended.wait()


async def test_a_refusal_is_the_error_it_stands_for(client: HttpClient, script: Script) -> None:
    script.answers = [refusal(409, "AlreadyExists", 'pods "web" already exists')]
    with pytest.raises(errors.AlreadyExists, match='pods "web" already exists'):
        await client.create(POD, POD_MANIFEST)
    script.answers = [Response(403, {}, b"go away")]
    with pytest.raises(errors.Forbidden, match="answered 403: go away"):
        await client.get(POD, WEB)
    script.answers = [Response(200, {}, b"<html>")]
    with pytest.raises(errors.Unavailable, match="no JSON"):
        await client.get(POD, WEB)


@pytest.mark.parametrize(
    ("method", "answer", "again"),
    [
        pytest.param("get", refusal(503, "ServiceUnavailable"), True, id="a read is repeated"),
        pytest.param("get", refusal(429, "TooManyRequests"), True, id="also when there were too many"),
        pytest.param("get", refusal(404, "NotFound"), False, id="not when there is nothing"),
        pytest.param("create", refusal(500, "InternalError"), False, id="a write may have been done"),
        pytest.param(
            "create", refusal(429, "TooManyRequests"), False, id="an eviction may be refused for good"
        ),
        pytest.param(
            "create",
            refusal(429, "TooManyRequests", Retry_After="1"),
            True,
            id="unless we are asked to come back",
        ),
    ],
)
async def test_what_is_tried_again(
    client: HttpClient, script: Script, clock: PatientClock, method: str, answer: Response, again: bool
) -> None:
    script.answers = [answer, json({"kind": "Pod"})]
    call = client.get(POD, WEB) if method == "get" else client.create(POD, POD_MANIFEST)
    if again:
        assert await call == {"kind": "Pod"}
    else:
        with pytest.raises(errors.ApiError):
            await call
    assert len(script.requests) == 1 + again


async def test_pauses_grow_and_honour_what_the_server_asks_for(
    client: HttpClient, script: Script, clock: PatientClock
) -> None:
    unavailable = refusal(503, "ServiceUnavailable")
    script.answers = [unavailable, unavailable, refusal(429, "TooManyRequests", Retry_After="7"), unavailable]
    with pytest.raises(errors.Unavailable):
        await client.get(POD, WEB)
    assert clock.slept == pytest.approx([0.075, 0.15, 7.05, 0.6, 1.2])
    assert len(script.requests) == 6


async def test_a_lost_connection_is_tried_again_for_reads_only(server: Server, clock: PatientClock) -> None:
    asked = 0

    async def drop(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        await reader.readuntil(b"\r\n\r\n")
        asked += 1
        writer.close()

    async with await asyncio.start_server(drop, "127.0.0.1", 0) as broken:
        port = broken.sockets[0].getsockname()[1]
        client = HttpClient(ConnectionPool(f"http://127.0.0.1:{port}"), clock, chance=lambda: 0)
        with pytest.raises(
            errors.Unavailable, match=r"POST /api/v1/\S+: 127.0.0.1:\d+ closed the connection"
        ):
            await client.create(POD, POD_MANIFEST)
        assert asked == 1
        with pytest.raises(errors.Unavailable):
            await client.get(POD, WEB)
        assert asked == 7


async def test_a_server_that_comes_back_is_found_again(script: Script, clock: PatientClock) -> None:
    first = Server(script)
    port = await first.start()
    script.answers = [json({"kind": "Pod"})]
    client = HttpClient(ConnectionPool(first.url), clock, chance=lambda: 0)
    await client.get(POD, WEB)
    await first.stop(0)
    await asyncio.sleep(0.01)  # the end of the idle connection has to arrive
    with pytest.raises(errors.Unavailable, match="cannot connect"):
        await client.create(POD, POD_MANIFEST)
    second = Server(script)
    await second.start(port=port)
    assert await client.create(POD, POD_MANIFEST) == {"kind": "Pod"}
    await client.close()
    await second.stop(0)


async def test_a_rate_limit_is_kept_on_this_side(server: Server, script: Script, clock: PatientClock) -> None:
    script.answers = [json({})]
    client = HttpClient(
        ConnectionPool(server.url), clock, chance=lambda: 0, limiter=RateLimiter(10, 2, clock)
    )
    for _ in range(4):
        await client.get(POD, WEB)
    assert clock.slept == pytest.approx([0.1, 0.1])
    await client.close()


async def test_credentials_are_shown(server: Server, script: Script, clock: PatientClock) -> None:
    script.answers = [json({"metadata": {}, "items": []})]
    client = HttpClient(
        ConnectionPool(server.url), clock, chance=lambda: 0, credentials=bearer("s3cret"), user_agent="me"
    )
    await client.list(POD)
    assert script.requests[0].headers["authorization"] == "Bearer s3cret"
    assert script.requests[0].headers["user-agent"] == "me"
    await client.close()
