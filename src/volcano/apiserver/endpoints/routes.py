"""Paths to meanings: which verb on which resource a request is about."""

from functools import lru_cache

import msgspec

from volcano.apiserver.authz.rbac import Action
from volcano.kube.errors import NotFound

# A namespace's own subresources; anything else below it is a collection in that namespace.
NAMESPACE_SUBRESOURCES = ("status", "finalize")
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


class Route(msgspec.Struct, frozen=True, gc=False):  # made for every request, which a dataclass is slow at
    """A request's verb and, for a resource request, which resource it is about."""

    verb: str
    path: str
    group: str = ""
    version: str = ""
    resource: str = ""  # the plural; empty when the path is no resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""  # what follows the subresource
    selected: str = ""  # the one name a list or watch is limited to by its field selector

    @property
    def action(self) -> Action:
        """What authorization is asked about."""
        if not self.resource:
            return Action(self.verb, path=self.path)
        name = self.name or self.selected
        return Action(self.verb, self.group, self.resource, self.subresource, name, self.namespace)


@lru_cache(maxsize=256)  # clients that create, list or watch ask under the same few paths again and again
def route(method: str, path: str, *, watch: bool = False, selected: str = "") -> Route:
    """What a request is about. `selected` is the name its field selector pins down, if it does."""
    parts = [part for part in path.split("/") if part]
    if len(parts) >= 3 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return Route("get" if method == "HEAD" else method.lower(), path)
    namespace, rest = _namespace(rest)
    resource, name, subresource = (*rest, "", "")[:3]
    verb = _verb(method, name, watch=watch)
    beyond = "/".join(rest[3:])
    return Route(verb, path, group, version, resource, namespace, name, subresource, beyond, selected)


def _namespace(parts: list[str]) -> tuple[str, list[str]]:
    """The namespace a path is about, and the path within it. A Namespace object is in itself."""
    if parts[0] != "namespaces" or len(parts) < 2:
        return "", parts
    namespace = parts[1]
    if len(parts) == 2 or (len(parts) == 3 and parts[2] in NAMESPACE_SUBRESOURCES):
        return namespace, parts
    return namespace, parts[2:]


def _verb(method: str, name: str, *, watch: bool) -> str:
    match method:
        case "GET" | "HEAD":
            return "get" if name else "watch" if watch and method == "GET" else "list"
        case "DELETE":
            return "delete" if name else "deletecollection"
        case _:
            return VERBS.get(method, method.lower())


def unknown_path() -> NotFound:
    """What a path that leads nowhere is answered with."""
    return NotFound("the server could not find the requested resource")
