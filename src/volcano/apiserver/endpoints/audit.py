"""Audit log: one audit.k8s.io/v1 Event per line for every request."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

import orjson

from volcano.apiserver.authn.identity import user_info
from volcano.apiserver.endpoints.request_info import RequestInfo
from volcano.apiserver.interfaces import User
from volcano.base.clock import Instant
from volcano.base.http.messages import Request
from volcano.kube.api.manifest import Manifest


class Sink(Protocol):
    """Destination of audit events, such as an open file."""

    def write(self, line: bytes, /) -> Any: ...


class Audit:
    """Writes audit events at level Metadata: without request and response bodies."""

    def __init__(self, sink: Sink, new_id: Callable[[], str]) -> None:
        self._sink = sink
        self._new_id = new_id

    def record(
        self,
        request: Request,
        info: RequestInfo,
        user: User | None,
        real_user: User | None,
        code: int,
        received: Instant,
        completed: Instant,
        *,
        streaming: bool = False,
        annotations: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Writes the event of one request. `user` is the impersonated user if there is one, `real_user` the
        authenticated one. A streaming request is recorded at stage ResponseStarted."""
        event: Manifest = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "auditID": self._new_id(),
            "stage": "ResponseStarted" if streaming else "ResponseComplete",
            "requestURI": request.target or request.path,
            "verb": info.verb,
            "user": user_info(real_user) if real_user else {},
            "sourceIPs": [request.peer.address.rpartition(":")[0] or request.peer.address],
            "userAgent": request.headers.get("user-agent", ""),
            "responseStatus": {"metadata": {}, "code": code},
            "requestReceivedTimestamp": received.micro_timestamp(),
            "stageTimestamp": completed.micro_timestamp(),
        }
        if user is not None and user != real_user:
            event["impersonatedUser"] = user_info(user)
        if info.resource:
            event["objectRef"] = {name: value for name, value in _object_reference(info).items() if value}
        if annotations:
            event["annotations"] = dict(annotations)
        self._sink.write(orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE))


def _object_reference(info: RequestInfo) -> dict[str, str]:
    return {
        "resource": info.resource,
        "namespace": info.namespace,
        "name": info.name,
        "apiGroup": info.group,
        "apiVersion": info.version,
        "subresource": info.subresource,
    }
