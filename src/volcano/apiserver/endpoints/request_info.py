"""RequestInfo: the verb, resource, namespace, name and subresource of a request, parsed from its method and path."""

from functools import lru_cache

import msgspec

from volcano.apiserver.authz.actions import Action
from volcano.kube.api.errors import NotFound

# Subresources of namespaces; any other path below a namespace is a collection in it.
NAMESPACE_SUBRESOURCES = ("status", "finalize")
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


class RequestInfo(msgspec.Struct, frozen=True, gc=False):  # created for every request, slow for a dataclass
    """Verb of a request and, for a resource request, its resource."""

    verb: str
    path: str
    group: str = ""
    version: str = ""
    resource: str = ""  # plural name; empty for a non-resource request
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""  # path after the subresource
    selected: str = ""  # metadata.name in the field selector of a list or watch
    selected_node: str = ""  # spec.nodeName in it

    @property
    def action(self) -> Action:
        """Action to authorize."""
        if not self.resource:
            return Action(self.verb, path=self.path)
        name = self.name or self.selected
        return Action(
            self.verb,
            self.group,
            self.resource,
            self.subresource,
            name,
            self.namespace,
            selected_node=self.selected_node,
        )


@lru_cache(maxsize=256)  # most requests use the same few collection paths
def new_request_info(
    method: str, path: str, *, watch: bool = False, selected: str = "", selected_node: str = ""
) -> RequestInfo:
    """Parses the method and path of a request; `selected` and `selected_node` are metadata.name and spec.nodeName in
    its field selector."""
    parts = [part for part in path.split("/") if part]
    if len(parts) >= 3 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return RequestInfo("get" if method == "HEAD" else method.lower(), path)
    namespace, rest = _namespace(rest)
    resource, name, subresource = (*rest, "", "")[:3]
    verb = _verb(method, name, watch=watch)
    trailing = "/".join(rest[3:])
    return RequestInfo(
        verb,
        path,
        group,
        version,
        resource,
        namespace,
        name,
        subresource,
        trailing,
        selected,
        selected_node,
    )


def _namespace(parts: list[str]) -> tuple[str, list[str]]:
    """Splits the namespace off a path. A request for a Namespace object has that namespace."""
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
    """Error for a path that is not served."""
    return NotFound("the server could not find the requested resource")
