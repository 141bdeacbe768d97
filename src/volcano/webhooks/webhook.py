"""HTTPS handler of admission: AdmissionReview in, AdmissionReview out, one path for each service."""

import base64
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

import orjson

from volcano.base.http import messages
from volcano.base.log import Log
from volcano.kube.api.errors import ApiError
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.patches.patch import diff
from volcano.webhooks.review import AdmissionOptions, AdmissionRequest, Lookup, NotCached
from volcano.webhooks.rules import (
    BY_PATH,
    AdmissionService,
    apply_mutator,
    apply_validator,
    apply_warners,
)

log = Log("webhook")

JSON = {"Content-Type": "application/json"}
# Types of the fields of a request.
FIELD_TYPES = {
    "uid": str,
    "operation": str,
    "namespace": str,
    "name": str,
    "resource": dict,
    "object": dict,
    "oldObject": dict,
    "userInfo": dict,
}
BODY_LIMIT = 3 * 1024 * 1024


class Webhook:
    """Answers AdmissionReviews for the enabled services."""

    def __init__(
        self,
        lookup: Lookup,
        options: AdmissionOptions,
        enabled: Collection[str] = tuple(BY_PATH),
        *,
        fetch: Callable[[Kind], Awaitable[Lookup]] | None = None,
    ) -> None:
        """`fetch` returns a lookup that holds the objects of a kind which is not cached."""
        unknown = [path for path in enabled if path not in BY_PATH]
        if unknown:
            raise ValueError(f"unknown admission service {unknown[0]!r}; choose from {', '.join(BY_PATH)}")
        self._lookup = lookup
        self._options = options
        self._fetch = fetch
        self._services = {path: BY_PATH[path] for path in enabled}

    async def __call__(self, request: messages.Request) -> messages.Answer:
        if request.path in ("/healthz", "/readyz", "/livez"):
            return messages.Response(200, {"Content-Type": "text/plain; charset=utf-8"}, b"ok")
        service = self._services.get(request.path)
        if service is None:
            return messages.Response(404, {"Content-Type": "text/plain; charset=utf-8"}, b"no such service\n")
        content = request.headers.get("content-type", "application/json").partition(";")[0].strip()
        if content != "application/json":
            text = f"content type {content} is not supported; send application/json\n".encode()
            return messages.Response(415, {"Content-Type": "text/plain; charset=utf-8"}, text)
        try:
            review = orjson.loads(request.body)
            asked = review["request"]
            uid = asked["uid"]
        except (ValueError, KeyError, TypeError):
            return _reply(
                "", _denied("the body is no AdmissionReview: an object with request.uid was expected", 400)
            )
        try:
            return _reply(uid, await self._review(service, asked))
        except Exception as error:  # a bug must deny with a reason, not time out
            log.error("review failed", path=request.path, error=error)
            return _reply(uid, _denied(f"the object could not be reviewed: {error}", 500))

    async def _review(self, service: AdmissionService, asked: Mapping[str, Any]) -> Manifest:
        try:
            response = self._evaluate(service, asked, self._lookup)
        except NotCached as wanted:
            if self._fetch is None:
                raise
            response = self._evaluate(service, asked, await self._fetch(wanted.kind))
        if response["allowed"] and service.warners:
            texts = await self._warnings(service, asked)
            return {**response, "warnings": texts} if texts else response
        return response

    async def _warnings(self, service: AdmissionService, asked: Mapping[str, Any]) -> list[str]:
        """Warnings for the client; what cannot be read for them does not reject the object."""
        try:
            return apply_warners(service, self._request(service, asked, self._lookup))
        except NotCached as wanted:
            try:
                lookup = await self._fetch(wanted.kind) if self._fetch is not None else self._lookup
                return apply_warners(service, self._request(service, asked, lookup))
            except (ApiError, NotCached) as error:
                log.warning("objects for warnings could not be read", kind=wanted.kind.kind, reason=error)
                return []

    def _request(
        self, service: AdmissionService, asked: Mapping[str, Any], lookup: Lookup
    ) -> AdmissionRequest:
        new, old = asked.get("object") or None, asked.get("oldObject") or None
        namespace = asked.get("namespace") or "" if service.kind.namespaced else ""
        key = Key(namespace, _name(asked, new, old))
        user = str((asked.get("userInfo") or {}).get("username") or "")
        return AdmissionRequest(asked["operation"], service.kind, key, new, old, lookup, self._options, user)

    def _evaluate(self, service: AdmissionService, asked: Mapping[str, Any], lookup: Lookup) -> Manifest:
        problem = _mismatch(service, asked)
        if problem:
            return _denied(problem, 400)
        new, old = asked.get("object") or None, asked.get("oldObject") or None
        needed = {"CREATE": (new,), "UPDATE": (new, old)}.get(asked["operation"], ())
        if None in needed:
            return _denied(f"there is no object to review in this {asked['operation']}", 400)
        request = self._request(service, asked, lookup)
        if service.mutator is not None:
            patch = diff(new, apply_mutator(service, request))
            if not patch:
                return {"allowed": True}
            encoded = base64.b64encode(orjson.dumps(patch)).decode()
            return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}
        violations = apply_validator(service, request)
        if not violations:
            return {"allowed": True}
        reason = "; ".join(map(str, violations))
        log.info("request denied", kind=service.kind.kind, object=request.key, reason=reason)
        if request.operation == "DELETE":
            return _denied(f'{service.kind.resource} "{request.key.name}" is forbidden: {reason}', 403)
        return _denied(reason, 422)


def _mismatch(service: AdmissionService, asked: Mapping[str, Any]) -> str:
    for part, type_ in FIELD_TYPES.items():
        if asked.get(part) is not None and not isinstance(asked[part], type_):
            return f"request.{part} is no {type_.__name__}: {asked[part]!r}"
    resource = asked.get("resource") or {}
    kind: Kind = service.kind
    wanted = {"group": kind.group, "version": kind.version, "resource": kind.plural}
    given = {part: resource.get(part, "") for part in wanted}
    if given != wanted:
        return f"expect resource to be {wanted}, not {given}"
    if asked.get("operation") not in service.operations:
        return f"expect operation to be {' or '.join(service.operations)}, not {asked.get('operation')}"
    return ""


def _name(asked: Mapping[str, Any], new: Manifest | None, old: Manifest | None) -> str:
    metadata = (new or old or {}).get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    return str(asked.get("name") or metadata.get("name") or metadata.get("generateName") or "")


def _denied(message: str, code: int) -> Manifest:
    return {"allowed": False, "status": {"status": "Failure", "message": message, "code": code}}


def _reply(uid: str, response: Manifest) -> messages.Response:
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": uid, **response},
    }
    return messages.Response(200, dict(JSON), orjson.dumps(review))
