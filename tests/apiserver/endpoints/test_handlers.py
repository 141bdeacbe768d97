"""Resource requests: verbs, conversions, parameters and errors."""

import gzip
import json
from typing import Any

import pytest
import yaml

from tests.apiserver.registries import config_map, pod
from tests.apiserver.servers import TestServer
from volcano.kube.api import protobuf, type_info

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadata{};v=v1;g=meta.k8s.io"


@pytest.fixture
async def server() -> TestServer:
    server = await TestServer().start()
    await server.made(MAPS, config_map("a", key="1"))
    return server


async def test_an_object_goes_through_every_verb(server: TestServer) -> None:
    made = await server.post(MAPS, config_map("b", key="1"))
    assert (made.code, made.json["metadata"]["name"]) == (201, "b")
    changed = {**made.json, "data": {"key": "2"}}
    assert (await server.ask("PUT", f"{MAPS}/b", changed)).json["data"] == {"key": "2"}
    patched = await server.ask(
        "PATCH", f"{MAPS}/b", {"data": {"other": "3"}}, content_type="application/merge-patch+json"
    )
    assert patched.json["data"] == {"key": "2", "other": "3"}
    listed = (await server.get(MAPS)).json
    assert (listed["kind"], [item["metadata"]["name"] for item in listed["items"]]) == (
        "ConfigMapList",
        ["a", "b"],
    )
    assert (await server.ask("HEAD", f"{MAPS}/b")).code == 200
    assert (await server.ask("DELETE", f"{MAPS}/b")).json["status"] == "Success"
    deleted = await server.get(f"{MAPS}/b")
    assert (deleted.code, deleted.message) == (404, 'configmaps "b" not found')


async def test_yaml_is_accepted_only_with_its_media_type(server: TestServer) -> None:
    body = yaml.safe_dump(config_map("y")).encode()
    assert (await server.post(MAPS, body, content_type="application/yaml")).code == 201
    rejected = await server.post(MAPS, body, content_type="text/plain; charset=utf-8")
    assert (rejected.code, rejected.json["reason"]) == (415, "UnsupportedMediaType")


@pytest.mark.parametrize("opening", [b"[", b"- "])
async def test_deeply_nested_yaml_is_rejected_everywhere(server: TestServer, opening: bytes) -> None:
    body, as_yaml = opening * 40_000, {"content_type": "application/yaml"}
    for method, target, headers in (
        ("POST", MAPS, as_yaml),
        ("PUT", f"{MAPS}/y", as_yaml),
        ("DELETE", f"{MAPS}/y", as_yaml),
        ("PATCH", f"{MAPS}/y?fieldManager=m", {"content_type": "application/apply-patch+yaml"}),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", as_yaml),
    ):
        answered = await server.ask(method, target, body, **headers)
        assert (answered.code, answered.json["reason"]) == (400, "BadRequest"), target
        assert "exceeded max depth" in answered.message


async def test_large_objects_are_written_as_yaml_in_flow_style(server: TestServer) -> None:
    await server.made(MAPS, config_map("large", **{f"k{i}": "x" * 1000 for i in range(100)}))
    found = await server.get(f"{MAPS}/large", accept="application/yaml")
    assert found.headers["Content-Type"] == "application/yaml"
    assert len(yaml.safe_load(found.body)["data"]) == 100


async def test_protobuf_is_welcome(server: TestServer) -> None:
    type_ = type_info.type_named("v1", "ConfigMap")
    assert type_ is not None
    body = protobuf.encode(type_, config_map("p", key="1"))
    made = await server.post(MAPS, body, content_type="application/vnd.kubernetes.protobuf")
    assert (made.code, made.json["data"]) == (201, {"key": "1"})


async def test_a_table_has_columns_and_rows(server: TestServer) -> None:
    shown = (await server.get(MAPS, accept=TABLE)).json
    assert (shown["kind"], shown["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [column["name"] for column in shown["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert shown["rows"][0]["cells"] == ["a", 1, "0s"]
    assert shown["metadata"]["resourceVersion"].isdigit()
    one = (await server.get(f"{MAPS}/a?includeObject=Object", accept=TABLE)).json
    assert one["rows"][0]["object"]["data"] == {"key": "1"}
    assert (await server.get(f"{MAPS}?includeObject=Half", accept=TABLE)).code == 400


async def test_errors_are_never_tables(server: TestServer) -> None:
    assert (await server.get(f"{MAPS}/none", accept=TABLE)).json["kind"] == "Status"


async def test_metadata_alone(server: TestServer) -> None:
    one = (await server.get(f"{MAPS}/a", accept=PARTIAL.format(""))).json
    assert (one["kind"], "data" in one) == ("PartialObjectMetadata", False)
    many = (await server.get(MAPS, accept=PARTIAL.format("List"))).json
    assert (many["kind"], many["items"][0]["metadata"]["name"]) == ("PartialObjectMetadataList", "a")


async def test_pages(server: TestServer) -> None:
    for name in "bcd":
        await server.made(MAPS, config_map(name))
    first = (await server.get(f"{MAPS}?limit=3")).json
    assert (len(first["items"]), first["metadata"]["remainingItemCount"]) == (3, 1)
    token = first["metadata"]["continue"]
    rest = (await server.get(f"{MAPS}?limit=3&continue={token}", accept=TABLE)).json
    assert [row["cells"][0] for row in rest["rows"]] == ["d"]


async def test_selectors(server: TestServer) -> None:
    labelled = config_map("l")
    labelled["metadata"]["labels"] = {"app": "web"}
    await server.made(MAPS, labelled)
    by_label = (await server.get(f"{MAPS}?labelSelector=app%3Dweb")).json
    by_name = (await server.get(f"{MAPS}?fieldSelector=metadata.name%3Da")).json
    assert [item["metadata"]["name"] for item in by_label["items"]] == ["l"]
    assert [item["metadata"]["name"] for item in by_name["items"]] == ["a"]
    assert (await server.get(f"{MAPS}?labelSelector=((")).code == 400
    assert (await server.get(f"{MAPS}?fieldSelector=data.key%3D1")).code == 400


async def test_a_collection_can_be_deleted_by_selector(server: TestServer) -> None:
    labelled = config_map("l")
    labelled["metadata"]["labels"] = {"app": "web"}
    await server.made(MAPS, labelled)
    assert (await server.ask("DELETE", f"{MAPS}?labelSelector=app%3Dweb")).code == 200
    assert [item["metadata"]["name"] for item in (await server.get(MAPS)).json["items"]] == ["a"]


async def test_dry_run_changes_nothing(server: TestServer) -> None:
    assert (await server.post(f"{MAPS}?dryRun=All", config_map("d"))).code == 201
    assert (await server.get(f"{MAPS}/d")).code == 404
    assert (await server.ask("DELETE", f"{MAPS}/a", {"dryRun": ["All"]})).code == 200
    assert (await server.get(f"{MAPS}/a")).code == 200


UNKNOWN: dict[str, Any] = {**pod("u"), "status": {}}
UNKNOWN["spec"]["foo"] = 1


async def test_unknown_fields_are_rejected_when_strict(server: TestServer) -> None:
    rejected = await server.post(f"{PODS}?fieldValidation=Strict", UNKNOWN)
    assert rejected.code == 400
    assert 'strict decoding error: unknown field "spec.foo"' in rejected.message


async def test_unknown_fields_are_warned_about_by_default_and_dropped(server: TestServer) -> None:
    made = await server.post(PODS, UNKNOWN)
    assert made.headers["Warning"] == '299 - "unknown field \\"spec.foo\\""'
    assert "foo" not in made.json["spec"]
    ignored = await server.post(f"{PODS}?fieldValidation=Ignore", {**pod("w"), "bar": 1})
    assert "Warning" not in ignored.headers


async def test_duplicate_fields_are_rejected_when_strict_and_else_warned_about(server: TestServer) -> None:
    body = json.dumps(config_map("dup", key="1")).replace('"key": "1"', '"key": "1", "key": "2"').encode()
    rejected = await server.post(f"{MAPS}?fieldValidation=Strict", body, content_type="application/json")
    assert (rejected.code, rejected.message) == (400, 'strict decoding error: duplicate field "data.key"')
    made = await server.post(MAPS, body, content_type="application/json")
    assert made.headers["Warning"] == '299 - "duplicate field \\"data.key\\""'
    assert made.json["data"] == {"key": "2"}


@pytest.mark.parametrize(
    ("method", "target", "code"),
    [
        pytest.param("GET", "/api/v1/unicorns", 404, id="no such kind"),
        pytest.param("GET", "/apis/none/v1/pods", 404, id="no such group"),
        pytest.param("GET", "/api/v1/pods/web", 404, id="a namespaced object without its namespace"),
        pytest.param("GET", "/api/v1/namespaces/default/nodes", 404, id="a cluster kind in a namespace"),
        pytest.param("GET", f"{MAPS}/a/scale", 404, id="no such subresource"),
        pytest.param("GET", f"{MAPS}/a/status/x", 404, id="too long a path"),
        pytest.param("POST", "/api/v1/configmaps", 405, id="creating in no namespace"),
        pytest.param("DELETE", "/api/v1/configmaps", 405, id="deleting all of every namespace"),
        pytest.param("POST", f"{MAPS}/a", 405, id="posting to an object"),
        pytest.param("PUT", MAPS, 405, id="replacing a collection"),
        pytest.param("PATCH", MAPS, 405, id="patching a collection"),
        pytest.param("OPTIONS", MAPS, 405, id="another method"),
        pytest.param("POST", f"{PODS}/web/log", 405, id="posting to a log"),
        pytest.param("GET", f"{PODS}/web/binding", 405, id="reading a binding"),
        pytest.param("DELETE", f"{PODS}/web/status", 405, id="deleting a status"),
    ],
)
async def test_paths_and_methods_that_do_not_exist(
    server: TestServer, method: str, target: str, code: int
) -> None:
    response = await server.ask(method, target, config_map("x"))
    assert (response.code, response.json["kind"]) == (code, "Status")


async def test_a_body_must_be_about_what_the_path_is_about(server: TestServer) -> None:
    other_name = await server.ask("PUT", f"{MAPS}/a", config_map("b"))
    assert other_name.code == 400
    assert other_name.message == "the name of the object (b) does not match the name on the URL (a)"
    nameless = await server.ask("PUT", f"{MAPS}/a", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}})
    assert nameless.code == 400
    assert nameless.message == (
        "the name of the object (a based on URL) was undeterminable: name must be provided"
    )
    evicting = await server.post(f"{PODS}/web/eviction", {"apiVersion": "policy/v1", "kind": "Eviction"})
    assert (evicting.code, evicting.message) == (400, "name in URL does not match name in Eviction object")
    other_namespace = await server.post(MAPS, config_map("b", namespace="kube-system"))
    assert other_namespace.code == 400
    assert other_namespace.message == (
        "the namespace of the provided object does not match the namespace sent on the request"
    )
    assert (await server.post(MAPS, pod("p"))).code == 400
    assert (await server.post(MAPS, [1])).code == 400
    assert (await server.post(MAPS, b"")).code == 400


async def test_formats_that_do_not_exist(server: TestServer) -> None:
    assert (await server.get(MAPS, accept="text/html")).code == 406
    assert (await server.post(MAPS, b"x", content_type="application/cbor")).code == 415
    response = await server.ask("PATCH", f"{MAPS}/a", {}, content_type="application/json")
    assert response.code == 415
    assert "application/merge-patch+json" in response.message


async def test_wrong_patches_are_the_clients_fault(server: TestServer) -> None:
    async def patch(kind: str, body: Any) -> int:
        return (await server.ask("PATCH", f"{MAPS}/a", body, content_type=f"application/{kind}")).code

    assert await patch("json-patch+json", {"op": "add"}) == 400
    assert await patch("json-patch+json", [{"op": "test", "path": "/data/key", "value": "9"}]) == 422
    assert await patch("merge-patch+json", [1]) == 400
    assert await patch("merge-patch+json", b"{") == 400
    assert await patch("strategic-merge-patch+json", "text") == 400
    assert await patch("apply-patch+yaml", b": {") == 422, "an apply patch must name its manager first"


async def test_pretty_responses_are_indented(server: TestServer) -> None:
    assert (await server.get(f"{MAPS}/a?pretty=true")).body.startswith(b'{\n  "')
    assert (await server.get(f"{MAPS}/a", accept="application/yaml")).body.startswith(b"kind:") or (
        yaml.safe_load((await server.get(f"{MAPS}/a", accept="application/yaml")).body)["data"]
        == {"key": "1"}
    )


async def test_long_lists_are_compressed(server: TestServer) -> None:
    await server.made(MAPS, config_map("big", blob="x" * 200_000))
    response = await server.get(MAPS, accept_encoding="gzip")
    assert response.headers["Content-Encoding"] == "gzip"
    assert len(json.loads(gzip.decompress(response.body))["items"]) == 2


async def test_the_audit_log_records_users_and_verbs(server: TestServer) -> None:
    server.audit.clear()
    await server.get(
        f"{MAPS}/none", user_agent="curl/8", impersonate_user="ann", impersonate_group="system:masters"
    )
    (line,) = server.audit
    event = json.loads(line)
    assert line.endswith(b"}\n")
    assert (event["kind"], event["level"], event["verb"]) == ("Event", "Metadata", "get")
    assert event["user"]["username"] == "kubernetes-admin"
    assert event["impersonatedUser"]["username"] == "ann"
    assert event["responseStatus"]["code"] == 404
    assert event["objectRef"] == {
        "resource": "configmaps",
        "namespace": "default",
        "name": "none",
        "apiVersion": "v1",
    }
    assert event["userAgent"] == "curl/8"


async def test_rejected_requests_are_recorded_too(server: TestServer) -> None:
    server.audit.clear()
    await server.get(MAPS, token="wrong")
    (event,) = map(json.loads, server.audit)
    assert (event["responseStatus"]["code"], event["user"]) == (401, {})


async def test_of_a_watch_the_beginning_is_recorded(server: TestServer) -> None:
    server.audit.clear()
    stream = await server.stream(f"{MAPS}?watch=true")
    (event,) = map(json.loads, server.audit)
    assert (event["verb"], event["stage"]) == ("watch", "ResponseStarted")
    await stream.chunks.aclose()  # type: ignore[attr-defined]
