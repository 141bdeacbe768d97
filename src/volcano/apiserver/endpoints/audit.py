"""The audit log: one audit.k8s.io/v1 Event a line for every request that has been answered."""

from collections.abc import Callable
from typing import Any, Protocol

import orjson

from volcano.apiserver.authn.identity import user_info
from volcano.apiserver.endpoints.routes import Route
from volcano.apiserver.interfaces import User
from volcano.clock import Instant
from volcano.kube.manifest import Manifest
from volcano.net.messages import Request


class Sink(Protocol):
    """Where lines go: an open file, or anything that takes bytes."""

    def write(self, line: bytes, /) -> Any: ...


class Audit:
    """Writes what was asked by whom and how it was answered; bodies are not recorded (level Metadata)."""

    def __init__(self, sink: Sink, new_id: Callable[[], str]) -> None:
        self._sink = sink
        self._new_id = new_id

    def record(
        self,
        request: Request,
        route: Route,
        user: User | None,
        real_user: User | None,
        code: int,
        received: Instant,
        answered: Instant,
        *,
        streaming: bool = False,
    ) -> None:
        """Writes the line of one request. `user` is whom the request acts as, `real_user` who sent it. Of a stream
        only the beginning is known yet."""
        event: Manifest = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "auditID": self._new_id(),
            "stage": "ResponseStarted" if streaming else "ResponseComplete",
            "requestURI": request.target or request.path,
            "verb": route.verb,
            "user": user_info(real_user) if real_user else {},
            "sourceIPs": [request.peer.address.rpartition(":")[0] or request.peer.address],
            "userAgent": request.headers.get("user-agent", ""),
            "responseStatus": {"metadata": {}, "code": code},
            "requestReceivedTimestamp": received.micro_timestamp(),
            "stageTimestamp": answered.micro_timestamp(),
        }
        if user is not None and user != real_user:
            event["impersonatedUser"] = user_info(user)
        if route.resource:
            event["objectRef"] = {name: value for name, value in _reference(route).items() if value}
        self._sink.write(orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE))


def _reference(route: Route) -> dict[str, str]:
    return {
        "resource": route.resource,
        "namespace": route.namespace,
        "name": route.name,
        "apiGroup": route.group,
        "apiVersion": route.version,
        "subresource": route.subresource,
    }
