"""Pages of a list: one moment, even when history moves on."""

import orjson
import pytest

from tests.apiserver.registries import config_map, namespace, registry
from volcano.apiserver.direct import DirectClient
from volcano.apiserver.registry.registry import Registry
from volcano.apiserver.storage.pagination import ExpiredContinue
from volcano.apiserver.storage.store import Store
from volcano.kube.api.errors import BadRequest, Gone, Invalid
from volcano.kube.api.kinds import CONFIG_MAP, NAMESPACE, POD
from volcano.kube.api.manifest import Key
from volcano.kube.client.protocol import Query


async def filled(made: Registry, count: int = 6) -> DirectClient:
    client = DirectClient(made)
    await client.create(NAMESPACE, namespace("default"))
    for number in range(count):
        await client.create(CONFIG_MAP, config_map(f"c{number}"))
    return client


async def test_a_page_is_encoded_as_a_list() -> None:
    made = registry()
    client = await filled(made, 3)
    page = await made.list(CONFIG_MAP, Query(limit=2))
    encoded = orjson.loads(page.encode())
    listing = await client.list(CONFIG_MAP)
    assert encoded["kind"] == "ConfigMapList"
    assert encoded["items"] == listing.items[:2]
    assert encoded["metadata"] == {
        "resourceVersion": listing.resource_version,
        "continue": page.continue_token,
        "remainingItemCount": 1,
    }
    assert orjson.loads((await made.list(POD)).encode())["items"] == []


async def test_a_token_outlived_by_history_offers_to_go_on_inconsistently() -> None:
    made = registry(Store(history=10))
    client = await filled(made)
    first = await client.list(CONFIG_MAP, Query(limit=2))
    for number in range(200):
        await client.patch(CONFIG_MAP, Key("default", "c0"), {"data": {"x": str(number)}})
    await client.delete(CONFIG_MAP, Key("default", "c3"))
    with pytest.raises(ExpiredContinue) as expired:
        await client.list(CONFIG_MAP, Query(limit=2, continue_token=first.continue_token))
    status = expired.value.status()
    assert (status["code"], status["reason"]) == (410, "Expired")
    token = status["metadata"]["continue"]
    rest = await client.list(CONFIG_MAP, Query(continue_token=token))
    assert [item["metadata"]["name"] for item in rest.items] == ["c2", "c4", "c5"]
    with pytest.raises(Gone, match="too old"):
        await client.list(CONFIG_MAP, Query(resource_version="2", resource_version_match="Exact"))


@pytest.mark.parametrize("token", ["nonsense", "e30", "!", "bnVsbA", "eyJydiI6InoiLCJzdGFydCI6IngifQ"])
async def test_a_token_we_did_not_give_out_is_refused(token: str) -> None:
    client = await filled(registry())
    with pytest.raises(BadRequest, match="continue key is not valid"):
        await client.list(CONFIG_MAP, Query(continue_token=token))


@pytest.mark.parametrize(
    ("query", "error", "text"),
    [
        (Query(resource_version_match="Exact"), Invalid, "forbidden unless resourceVersion is provided"),
        (
            Query(resource_version="0", resource_version_match="Exact"),
            Invalid,
            "forbidden for resourceVersion",
        ),
        (Query(resource_version="1", resource_version_match="Newest"), Invalid, "Unsupported value"),
        (Query(resource_version="-1"), Invalid, "Invalid value"),
    ],
)
async def test_contradictions_are_refused(query: Query, error: type[Exception], text: str) -> None:
    client = await filled(registry())
    with pytest.raises(error, match=text):
        await client.list(CONFIG_MAP, query)
