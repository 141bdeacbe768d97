"""Requests to the accounting API, and amounts of its answers."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

import orjson

from volcano.accounting import api
from volcano.kube.api.errors import Forbidden, NotFound, Unavailable
from volcano.kube.client.http import HttpClient
from volcano.services.errors import ServiceError, Unreachable

HOUR: Final = 3600.0
SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
MOST_PAGES: Final = 200
NOT_SERVED: Final = (
    "accounting is not enabled: start vc-controller-manager with --accounting-database (in the chart: "
    "custom.accounting_enable), or `volcano up` without --accounting-database none"
)


async def ask(client: HttpClient, resource: str, namespace: str, **parameters: str) -> dict[str, Any]:
    """Answer of the accounting API; an empty namespace means all."""
    where = f"/namespaces/{namespace}" if namespace else ""
    given = {name: value for name, value in parameters.items() if value}
    target = f"{api.ROOT}{where}/{resource}" + (f"?{urlencode(given)}" if given else "")
    try:
        answer: dict[str, Any] = orjson.loads((await client.raw("GET", target)).body)
    except NotFound:
        raise Unreachable(NOT_SERVED) from None
    except Forbidden as error:
        hint = "" if namespace else "; with -n NAMESPACE, the usage in one namespace is shown"
        raise Unreachable(f"{error.message}{hint}") from None
    except Unavailable as error:
        raise Unreachable(f"accounting does not answer: {error.message}") from None
    except ValueError:
        raise ServiceError(f"{target}: the answer is not JSON") from None
    return answer


async def ask_all(
    client: HttpClient, resource: str, namespace: str, most: int, **parameters: str
) -> list[Any]:
    """Items of all pages of an answer, at most `most`."""
    items: list[Any] = []
    following = ""
    for _ in range(MOST_PAGES):
        limit = str(min(most - len(items), 1000))
        page = await ask(client, resource, namespace, **{**parameters, "limit": limit, "continue": following})
        items += page["items"]
        following = page.get("continue") or ""
        if not following or len(items) >= most:
            break
    return items


def hours(resources: Mapping[str, float], name: str) -> float:
    """Resource-hours; of memory, GiB-hours."""
    amount = resources.get(name, 0.0) / HOUR
    return amount / 2**30 if name == "memory" else amount


def number_text(amount: float) -> str:
    """A number for people: few digits, thousands apart."""
    if amount == 0:
        return "0"
    return f"{amount:,.0f}" if amount >= 1000 else f"{amount:,.1f}" if amount >= 10 else f"{amount:.2f}"
