"""Applies Services and NetworkPolicies to the pods' network, and opens node ports, as objects change."""

import asyncio
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from contextlib import ExitStack

from volcano.base.clock import Clock
from volcano.base.log import Log
from volcano.base.workqueue import Backoff, Waker
from volcano.kube.api.events import reference_to
from volcano.kube.api.kinds import ENDPOINT_SLICE, ENDPOINTS, NAMESPACE, NETWORK_POLICY, POD, SERVICE
from volcano.kube.api.manifest import TERMINAL_PHASES, Key, Manifest, key_of, labels_of, uid_of
from volcano.kube.client.protocol import Event, EventType, Watch
from volcano.kube.informers.indexer import Indexer
from volcano.kube.informers.shared_informers import SharedInformerFactory
from volcano.nodes.cri import Runtime
from volcano.nodes.kubelet.events import EventWriter
from volcano.nodes.kubelet.network.node_ports import NodePortListener
from volcano.nodes.kubelet.network.policies import (
    ParsedPolicy,
    PolicyPod,
    isolations,
    parse_policy,
    policy_pod,
)
from volcano.nodes.kubelet.network.services import NodePort, node_ports, service_of, service_ports
from volcano.nodes.shim.network_rules import Isolation, NetworkRules, ServicePort
from volcano.nodes.shim.specs import Failure

log = Log("network")

DEBOUNCE = 0.05  # seconds in which changes are collected
HOST_REFRESH = 10.0  # seconds between readings of this host's addresses
RETRY = Backoff(first=0.5, longest=30.0)
WATCHES = tuple(Watch(kind) for kind in (POD, SERVICE, ENDPOINT_SLICE, ENDPOINTS, NETWORK_POLICY, NAMESPACE))
NOT_ENFORCED = "NetworkPolicyNotEnforced"
NOT_APPLIED = "NetworkRulesNotApplied"


class NetworkSync:
    """Keeps the rules of one runtime's network up to date while `run` runs.

    `name_server` is the address of the cluster's DNS, which policies see as a pod labelled `k8s-app: kube-dns` in
    kube-system; `cluster_addresses` belong to Services that this process serves itself.
    """

    def __init__(
        self,
        runtime: Runtime,
        informers: SharedInformerFactory,
        clock: Clock,
        events: EventWriter,
        *,
        nodes: Collection[str],
        ports: NodePortListener,
        cluster_addresses: Collection[str],
        name_server: str,
        host_addresses: Callable[[], Iterable[str]],
    ) -> None:
        self._runtime = runtime
        self._informers = informers
        self._clock = clock
        self._events = events
        self._nodes = frozenset(nodes)
        self._ports = ports
        self._cluster_addresses = frozenset(cluster_addresses)
        dns_ports = (("dns", "UDP", 53), ("dns-tcp", "TCP", 53))
        self._name_server = PolicyPod("kube-system", {"k8s-app": "kube-dns"}, name_server, dns_ports)
        self._host_addresses = host_addresses
        self._index = Indexer()
        self._index.add_index(ENDPOINT_SLICE, "service", _by_service)
        self._reported_addresses: dict[str, str] = {}
        self._policies: dict[Key, ParsedPolicy] = {}
        self._applied: NetworkRules | None = None
        self._synced = asyncio.Event()
        self._applying = asyncio.Lock()
        self._waker = Waker(clock)

    async def run(self) -> None:
        with ExitStack() as stack:
            handlers = [
                stack.enter_context(self._informers.add_event_handler(watch, self.on_event))
                for watch in WATCHES
            ]
            async with asyncio.TaskGroup() as group:
                for handler in handlers:
                    group.create_task(handler.wait_stopped())
                for handler in handlers:
                    await handler.synced.wait()
                self._synced.set()
                await self._work()

    def on_event(self, event: Event) -> None:
        if event.type is EventType.BOOKMARK:
            return
        self._index.apply(event)
        if event.kind == NETWORK_POLICY:
            self._update_policy(event)
        elif event.kind == POD:
            if event.type is EventType.DELETED:
                self._reported_addresses.pop(uid_of(event.object), None)
            if not self._policies:  # pods matter to policies only
                return
        self._waker.wake()

    def set_pod_address(self, uid: str, address: str) -> None:
        """Sets the address of a pod before its status has it; an empty one removes it."""
        if address:
            self._reported_addresses[uid] = address
        else:
            self._reported_addresses.pop(uid, None)
        if self._policies:
            self._waker.wake()

    async def isolate(self, pod: Manifest, address: str) -> None:
        """Returns when the policies that select a pod apply to it, so that it never runs without them."""
        if not self._runtime.features.network_rules or pod["spec"].get("hostNetwork"):
            return
        await self._synced.wait()
        selected = policy_pod(pod, address)
        if any(policy.selects(selected) for policy in self._policies.values()):
            self._reported_addresses[uid_of(pod)] = address
            self._index.apply(Event(EventType.ADDED, POD, pod))
            await self._apply()

    def invalidate(self) -> None:
        """Applies the rules again: the runtime has lost them."""
        self._applied = None
        self._waker.wake()

    async def close(self) -> None:
        await self._ports.close()

    # Work

    async def _work(self) -> None:
        failures = 0
        try:
            while True:
                self._waker.clear()
                try:
                    await self._apply()
                    failures = 0
                    due = self._clock.now().monotonic + HOST_REFRESH
                except Failure as failure:
                    self._report_failure(failure)
                    due = self._clock.now().monotonic + RETRY.delay(failures)
                    failures += 1
                await self._waker.wait(due)
                await self._clock.sleep(DEBOUNCE)
        finally:
            self._waker.close()

    async def _apply(self) -> None:
        self._ports.update(self._node_ports())
        if not self._runtime.features.network_rules:
            return
        async with self._applying:
            rules = self._rules()
            if rules != self._applied:
                await self._runtime.apply_network_rules(rules)
                self._applied = rules
                isolated = len(rules.ingress) + len(rules.egress)
                log.debug("network rules applied", services=len(rules.services), isolations=isolated)

    def _rules(self) -> NetworkRules:
        ingress, egress = self._isolations()
        services = tuple(
            sorted(self._service_ports(), key=lambda each: (each.address, each.protocol, each.port))
        )
        hosts = tuple(sorted(self._host_addresses()))
        return NetworkRules(services, ingress, egress, hosts)

    def _service_ports(self) -> Iterator[ServicePort]:
        for service in self._index.all(SERVICE):
            if (service.get("spec") or {}).get("clusterIP") not in self._cluster_addresses:
                yield from service_ports(service, *self._endpoints(service), self._nodes)

    def _node_ports(self) -> list[NodePort]:
        return [
            port
            for service in self._index.all(SERVICE)
            for port in node_ports(service, *self._endpoints(service), self._nodes)
        ]

    def _endpoints(self, service: Manifest) -> tuple[list[Manifest], Manifest | None]:
        key = key_of(service)
        return self._index.by_index(ENDPOINT_SLICE, "service", key), self._index.get(ENDPOINTS, key)

    def _isolations(self) -> tuple[tuple[Isolation, ...], tuple[Isolation, ...]]:
        if not self._policies:
            return (), ()
        pods = [policy_pod(pod, address) for pod in self._index.all(POD) if (address := self._address(pod))]
        namespaces = {key_of(each).name: labels_of(each) for each in self._index.all(NAMESPACE)}
        policies = [self._policies[key] for key in sorted(self._policies)]
        return isolations(
            policies, sorted(pods, key=lambda pod: pod.address), namespaces, [self._name_server]
        )

    def _address(self, pod: Manifest) -> str:
        """The address of a pod in the pods' network; empty for pods that have none, or have ended."""
        status, spec = pod.get("status") or {}, pod["spec"]
        if (
            spec.get("hostNetwork")
            or status.get("phase") in TERMINAL_PHASES
            or spec.get("nodeName") not in self._nodes
        ):
            return ""
        return self._reported_addresses.get(uid_of(pod)) or status.get("podIP") or ""

    # Reports

    def _update_policy(self, event: Event) -> None:
        policy: Manifest = event.object
        key = key_of(policy)
        if event.type is EventType.DELETED:
            self._policies.pop(key, None)
            return
        try:
            self._policies[key] = parse_policy(policy)
        except ValueError as error:
            log.warning("network policy skipped", policy=str(key), reason=str(error))
            self._warn(policy, NOT_ENFORCED, f"the policy is malformed and has no effect: {error}")
        if event.type is EventType.ADDED and not self._runtime.features.network_rules:
            text = (
                f"Network policies are not enforced by the runtime {self._runtime.name} of the local nodes; "
                "netns and userns enforce them where the kernel has nftables."
            )
            self._warn(policy, NOT_ENFORCED, text)

    def _warn(self, policy: Manifest, reason: str, text: str) -> None:
        about = {"apiVersion": NETWORK_POLICY.api_version, "kind": NETWORK_POLICY.kind, **policy}
        self._events.warn(min(self._nodes, default=""), reference_to(about), reason, text)

    def _report_failure(self, failure: Failure) -> None:
        log.error("network rules not applied, retrying", reason=failure.message)
        for node in self._nodes:
            about = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "uid": node}}
            self._events.warn(node, reference_to(about), NOT_APPLIED, failure.message)


def _by_service(slice_: Manifest) -> Iterable[Hashable]:
    service = service_of(slice_)
    return (Key(key_of(slice_).namespace, service),) if service else ()
