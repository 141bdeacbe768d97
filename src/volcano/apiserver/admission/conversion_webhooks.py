"""Conversion webhooks of CRDs: posts ConversionReviews and checks the converted objects."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from volcano.apiserver.admission.webhook_calls import Caller, CallFailed
from volcano.apiserver.interfaces import Lookup
from volcano.base.http.dialer import Dial
from volcano.kube.api.errors import InternalError
from volcano.kube.api.manifest import Manifest

REVIEW_VERSIONS = ("v1", "v1beta1")
GROUP = "apiextensions.k8s.io"
# Seconds for one conversion, connecting included; as in kube-apiserver, a CRD cannot change it.
TIMEOUT = 30
_IDENTITY = ("name", "namespace", "uid")


class ConversionWebhooks:
    """Converts custom resources by the webhooks that their CRDs name."""

    def __init__(self, new_id: Callable[[], str], lookup: Lookup, dial: Dial) -> None:
        self._caller = Caller(dial)
        self._new_id = new_id
        self._lookup = lookup

    async def close(self) -> None:
        """Closes the connections to webhooks."""
        await self._caller.close()

    async def convert(
        self, conversion: Mapping[str, Any], objects: list[Manifest], api_version: str
    ) -> list[Manifest]:
        """The objects in another version, in the same order. `conversion` is that of the CRD's spec. Raises
        InternalError."""
        first = objects[0]
        described = f"{first.get('apiVersion')}, Kind={first.get('kind')}"
        try:
            async with asyncio.timeout(TIMEOUT):
                converted = await self._review(conversion.get("webhook") or {}, objects, api_version)
        except (CallFailed, TimeoutError) as error:
            reason = str(error) or f"no response within {TIMEOUT} seconds"
            raise InternalError(f"conversion webhook for {described} failed: {reason}") from error
        for index, (before, after) in enumerate(zip(objects, converted, strict=True)):
            problem = _problem(before, after, api_version)
            if problem:
                raise InternalError(
                    f"conversion webhook for {described} returned invalid converted object at index {index}: {problem}"
                )
            _restore_metadata(before, after)
        return converted

    async def _review(
        self, webhook: Mapping[str, Any], objects: list[Manifest], api_version: str
    ) -> list[Manifest]:
        version = _review_version(webhook)
        uid = self._new_id()
        request = {"uid": uid, "desiredAPIVersion": api_version, "objects": objects}
        review = {"kind": "ConversionReview", "apiVersion": f"{GROUP}/{version}", "request": request}
        client = webhook.get("clientConfig") or {}
        body = await self._caller.post(client, orjson.dumps(review), TIMEOUT, self._lookup)
        return _converted(body, version, uid, len(objects))


def _review_version(webhook: Mapping[str, Any]) -> str:
    for version in webhook.get("conversionReviewVersions") or ():
        if version in REVIEW_VERSIONS:
            return str(version)
    raise CallFailed("the webhook accepts no known ConversionReview version (v1, v1beta1)")


def _converted(body: bytes, version: str, uid: str, count: int) -> list[Manifest]:
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise CallFailed(f"invalid response: {error}") from error
    response = review.get("response") if isinstance(review, dict) else None
    if not isinstance(response, dict):
        raise CallFailed("invalid response: no response provided")
    gvk = (review.get("apiVersion"), review.get("kind"))
    if gvk != (f"{GROUP}/{version}", "ConversionReview"):
        raise CallFailed(
            f"invalid response: expected webhook response of {GROUP}/{version}, Kind=ConversionReview, "
            f"got {gvk[0]}, Kind={gvk[1]}"
        )
    if response.get("uid") != uid:
        got = response.get("uid") or ""
        raise CallFailed(f'invalid response: expected response.uid="{uid}", got "{got}"')
    result = response.get("result") or {}
    if not isinstance(result, dict) or result.get("status") != "Success":
        message = result.get("message") if isinstance(result, dict) else ""
        raise CallFailed(str(message or "response.result.status was not 'Success'"))
    objects = response.get("convertedObjects") or []
    if not isinstance(objects, list) or len(objects) != count:
        got = len(objects) if isinstance(objects, list) else 0
        raise CallFailed(f"webhook returned {got} objects, expected {count}")
    return objects


def _problem(before: Manifest, after: Any, api_version: str) -> str:
    """Why a converted object is invalid; empty if it is valid."""
    if not isinstance(after, dict):
        return f"expected an object, received {type(after).__name__}"
    if after.get("apiVersion") != api_version:
        return f"invalid groupVersion (expected {api_version}, received {after.get('apiVersion')})"
    if after.get("kind") != before.get("kind"):
        return f"invalid kind (expected {before.get('kind')}, received {after.get('kind')})"
    metadata = after.get("metadata")
    if not isinstance(metadata, dict):
        return "invalid metadata of type null in converted object"
    for name in _IDENTITY:
        old, new = before["metadata"].get(name) or "", metadata.get(name) or ""
        if old != new:
            return f"must have the same {name}: {new} != {old}"
    for name in ("labels", "annotations"):
        values = metadata.get(name) or {}
        if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
            return f"invalid metadata: {name} must be a map of strings"
    return ""


def _restore_metadata(before: Manifest, after: Manifest) -> None:
    """Takes labels and annotations from the converted object and all other metadata from the original one."""
    changed = after["metadata"]
    restored = {
        name: value for name, value in before["metadata"].items() if name not in ("labels", "annotations")
    }
    for name in ("labels", "annotations"):
        if changed.get(name):
            restored[name] = changed[name]
    after["metadata"] = restored
