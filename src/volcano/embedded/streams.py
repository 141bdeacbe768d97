"""exec, attach and port-forward of pods: by local nodes, or by the kubelet that has registered the node."""

from dataclasses import dataclass

from volcano.apiserver.endpoints.logs import no_process
from volcano.apiserver.proxy.kubelets import KubeletConnections
from volcano.base.http.messages import Answer, Request
from volcano.embedded.local_nodes import LocalNodes
from volcano.kube.api.manifest import Manifest


@dataclass(frozen=True, slots=True)
class ClusterStreams:
    """Serves the streams of all pods that run somewhere; raises for those of simulated nodes."""

    local_nodes: LocalNodes | None
    kubelets: KubeletConnections

    async def connect(self, subresource: str, pod: Manifest, request: Request) -> Answer:
        if self.local_nodes is not None and self.local_nodes.is_real(pod):
            return await self.local_nodes.connect(subresource, pod, request)
        if self.kubelets.serves(pod):
            return await self.kubelets.connect(subresource, pod, request)
        raise no_process(subresource, pod)
