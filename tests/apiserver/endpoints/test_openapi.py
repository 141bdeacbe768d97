"""OpenAPI documents are served by path and by hash."""

import json

from tests.apiserver.schema.test_openapi import BUILT_IN, widgets
from volcano.apiserver.endpoints.openapi import OpenApi
from volcano.apiserver.schema.openapi import schema_name
from volcano.base.http.messages import Request, Response
from volcano.kube.api.kinds import POD


class Table:
    """Kinds that are added and removed."""

    def __init__(self) -> None:
        self.served = list(BUILT_IN)
        self.generation = 1

    def handler(self) -> OpenApi:
        return OpenApi(lambda: self.served, lambda: self.generation)


def get(api: OpenApi, url: str, **headers: str) -> Response:
    path, _, query = url.partition("?hash=")
    response = api(Request("GET", path, {"hash": [query]} if query else {}, headers))
    assert response is not None
    return response


def urls(api: OpenApi) -> dict[str, str]:
    paths = json.loads(get(api, "/openapi/v3").body)["paths"]
    return {path: entry["serverRelativeURL"] for path, entry in paths.items()}


def test_the_url_of_a_document_changes_with_its_content() -> None:
    table = Table()
    api = table.handler()
    before = urls(api)
    response = get(api, before["api/v1"])
    assert response.headers["Cache-Control"] == "public, immutable"
    assert schema_name(POD) in json.loads(response.body)["components"]["schemas"]
    table.served += widgets()
    table.generation += 1
    after = urls(api)
    assert after["api/v1"] == before["api/v1"]
    assert after.keys() - before.keys() == {"apis/shop.example.com/v1"}


def test_an_old_hash_redirects_to_the_new_one() -> None:
    api = Table().handler()
    response = get(api, "/openapi/v3/apis/apps/v1?hash=OLD")
    assert (response.status, response.headers["Location"]) == (301, urls(api)["apis/apps/v1"])


def test_a_cached_document_is_not_sent_again() -> None:
    api = Table().handler()
    tag = get(api, "/openapi/v3/apis/apps/v1").headers["ETag"]
    again = get(api, "/openapi/v3/apis/apps/v1", **{"if-none-match": tag})
    assert (again.status, again.body) == (304, b"")


def test_a_group_that_is_not_served_has_no_document() -> None:
    assert Table().handler()(Request("GET", "/openapi/v3/apis/unknown/v1")) is None
