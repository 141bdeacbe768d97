"""OpenAPI endpoint: /openapi/v3 and its documents, which clients cache by the hash in their URL."""

import hashlib
from collections.abc import Callable, Iterable
from typing import Any

import orjson

from volcano.apiserver.endpoints.discovery import verbs_of
from volcano.apiserver.schema.openapi import DescribedKind, VirtualKind, document, document_hash, path_of
from volcano.base.http.messages import Request, Response
from volcano.kube.api.kinds import VIRTUAL

PREFIX = "/openapi/v3"


class OpenApi:
    """Handles /openapi/v3 and the documents below it; returns None for a document that does not exist."""

    def __init__(self, served: Callable[[], Iterable[DescribedKind]], generation: Callable[[], int]) -> None:
        self._served = served
        self._generation = generation
        self._seen_generation = -1
        self._groups: dict[str, tuple[DescribedKind, ...]] = {}
        self._hashes: dict[str, str] = {}
        self._documents: dict[str, bytes] = {}  # by hash

    def __call__(self, request: Request) -> Response | None:
        self._refresh()
        if request.path.rstrip("/") == PREFIX:
            return _cacheable(orjson.dumps(index(self._hashes)), request)
        path = request.path.removeprefix(f"{PREFIX}/")
        current = self._hashes.get(path)
        if current is None:
            return None
        requested = request.parameter("hash")
        if requested and requested != current:
            return Response(301, {"Location": _url(path, current)})
        if current not in self._documents:
            self._documents[current] = orjson.dumps(document(self._groups[path], verbs_of))
        return _cacheable(self._documents[current], request, tag=current, immutable=bool(requested))

    def _refresh(self) -> None:
        """Updates the hashes after kinds were added, removed or changed; documents are built on request."""
        if self._seen_generation == self._generation():
            return
        self._seen_generation = self._generation()
        groups: dict[str, list[DescribedKind]] = {}
        for each in (*self._served(), *map(VirtualKind, VIRTUAL)):
            groups.setdefault(path_of(each.kind), []).append(each)
        self._groups = {path: tuple(members) for path, members in sorted(groups.items())}
        self._hashes = {path: document_hash(members) for path, members in self._groups.items()}
        current = set(self._hashes.values())
        self._documents = {tag: body for tag, body in self._documents.items() if tag in current}


def index(hashes: dict[str, str]) -> dict[str, Any]:
    """Index of the documents, with URLs that include the hash of their content."""
    return {"paths": {path: {"serverRelativeURL": _url(path, tag)} for path, tag in hashes.items()}}


def _url(path: str, tag: str) -> str:
    return f"{PREFIX}/{path}?hash={tag}"


def _cacheable(body: bytes, request: Request, *, tag: str = "", immutable: bool = False) -> Response:
    headers = {"Content-Type": "application/json", "Vary": "Accept"}
    headers["ETag"] = f'"{tag or hashlib.sha512(body).hexdigest().upper()}"'
    if immutable:
        headers["Cache-Control"] = "public, immutable"
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(304, headers)
    return Response(200, headers, body)
