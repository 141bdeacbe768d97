"""Handles `pods/proxy`, `services/proxy` and `nodes/proxy`."""

from random import Random
from urllib.parse import quote

from volcano.apiserver.interfaces import Lookup
from volcano.apiserver.proxy.forwarding import Backend, forward, is_upgrade
from volcano.apiserver.proxy.kubelets import KubeletConnections, NoKubelet
from volcano.apiserver.proxy.locations import Location, parse_target, pod_location, service_location
from volcano.apiserver.proxy.rewriting import LinkRewriter
from volcano.base.http.dialer import Dialer
from volcano.base.http.messages import Answer, Exchange, Request, Response
from volcano.base.http.tls_context import client_context
from volcano.kube.api.errors import Unavailable
from volcano.kube.api.kinds import NODE
from volcano.kube.api.manifest import Key, Manifest, labels_of
from volcano.kube.api.names import SIMULATED

SUBRESOURCE = "proxy"
# Characters that stay as they are in the path of a URL.
SAFE = "$&+,/:;=@-_.~"


class ProxyHandler:
    """Forwards requests to pods, endpoints of Services and kubelets."""

    def __init__(
        self, lookup: Lookup, dialer: Dialer, random: Random, kubelets: KubeletConnections | None = None
    ) -> None:
        self._lookup = lookup
        self._dialer = dialer
        self._random = random
        self._kubelets = kubelets
        self._tls = client_context(insecure=True)  # certificates of pods are not verified, as in Kubernetes

    def handle(self, request: Request, resource: str, namespace: str, name: str) -> Answer:
        """Answers a request that has been authorized; raises an ApiError if it has no backend."""
        prefix, path = split_path(request.path)
        if resource == "nodes":
            backend = self._node(name)
        elif resource == "services":
            backend = self._backend(service_location(namespace, name, self._lookup, self._random))
        else:
            backend = self._backend(pod_location(namespace, name, self._lookup))
        query = request.target.partition("?")[2]
        suffix = f"?{query}" if query else ""
        if not path and request.method in ("GET", "HEAD") and not is_upgrade(request):
            # Relative links of a page need the slash.
            return Response(301, {"Location": f"{quote(prefix, safe=SAFE)}/{suffix}"})
        encoded = quote(path, safe=SAFE)
        own = f"[{backend.host}]:{backend.port}" if ":" in backend.host else f"{backend.host}:{backend.port}"
        hosts = frozenset({own, request.headers.get("host", "")} - {""})
        rewriter = LinkRewriter(prefix, encoded, hosts)
        return Exchange(lambda: forward(request, backend, (encoded or "/") + suffix, rewriter=rewriter))

    def _node(self, name: str) -> Backend:
        target = parse_target("node", name)
        if self._kubelets is None:
            raise NoKubelet(
                "nodes/proxy is not possible: no node has a kubelet with an API", name=name, kind="nodes"
            )
        return self._kubelets.node_backend(target)

    def _backend(self, location: Location) -> Backend:
        if location.pod is not None:
            self._check_running(location.pod)
        tls = self._tls if location.scheme == "https" else None
        return Backend(location.host, location.port, self._dialer.dial, tls)

    def _check_running(self, pod: Manifest) -> None:
        name, node_name = pod["metadata"]["name"], pod["spec"].get("nodeName") or ""
        node = self._lookup.find(NODE, Key("", node_name))
        if node is not None and SIMULATED in labels_of(node):
            raise NoKubelet(
                f'proxy is not possible to pod "{name}": it runs on a simulated node, where no process backs it',
                name=name,
                kind="pods",
            )
        phase = (pod.get("status") or {}).get("phase") or "Pending"
        if phase != "Running":
            raise Unavailable(f'error trying to reach service: pod "{name}" is not running (phase {phase})')


def split_path(path: str) -> tuple[str, str]:
    """Splits the path of a proxy request after `proxy`; the second part is empty or begins with a slash."""
    segments, position = [], 0  # those that are not empty, with their ends
    for segment in path.split("/"):
        position += len(segment)
        if segment:
            segments.append((segment, position))
        position += 1
    count = 7 if segments[2][0] == "namespaces" else 5  # segments up to `proxy`
    end = segments[count - 1][1]
    return path[:end], path[end:]
