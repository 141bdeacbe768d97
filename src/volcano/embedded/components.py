"""Components of a local cluster: its controllers and scheduler, and the objects they need."""

import json
import string
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random

from volcano.apiserver.bootstrap import system_priority_classes
from volcano.apiserver.registry.registry import Registry
from volcano.base.clock import Clock
from volcano.base.http.dialer import Dial
from volcano.base.http.tls import Authority
from volcano.base.metrics import CompositeRegistry
from volcano.controllers.colocation import ColocationController
from volcano.controllers.cronjob import CronJobController
from volcano.controllers.hypernode.controller import HyperNodeController
from volcano.controllers.job.controller import JobController
from volcano.controllers.jobflow import JobFlowController, JobTemplateController
from volcano.controllers.kubernetes.certificates import CertificateController, MayRequest
from volcano.controllers.kubernetes.cronjob import BatchCronJobController
from volcano.controllers.kubernetes.daemonset import DaemonSetController
from volcano.controllers.kubernetes.deployment import DeploymentController
from volcano.controllers.kubernetes.disruption import DisruptionController
from volcano.controllers.kubernetes.endpoints import EndpointsController
from volcano.controllers.kubernetes.garbage_collector import GarbageCollector
from volcano.controllers.kubernetes.job.controller import BatchJobController
from volcano.controllers.kubernetes.namespace import CrdFinalizer, NamespaceController
from volcano.controllers.kubernetes.node_lifecycle import NodeLifecycleController
from volcano.controllers.kubernetes.quota import ResourceQuotaController
from volcano.controllers.kubernetes.replicaset import ReplicaSetController
from volcano.controllers.kubernetes.resource_claims import ResourceClaimController
from volcano.controllers.kubernetes.service_accounts import NamespaceAccounts
from volcano.controllers.kubernetes.statefulset import StatefulSetController
from volcano.controllers.kubernetes.volumes import VolumeController
from volcano.controllers.podgroup import PodGroupController
from volcano.controllers.queue import QueueController
from volcano.embedded.options import ClusterOptions
from volcano.embedded.state import STATE_FILE, VOLUMES
from volcano.embedded.system import CONFIG_KEY, CONFIG_NAME
from volcano.kube.api import crds as our_crds
from volcano.kube.api.kinds import CONFIG_MAP, CRD, PRIORITY_CLASS, QUEUE, SERVICE_ACCOUNT, Kind
from volcano.kube.api.manifest import Key, Manifest, key_of
from volcano.kube.api.names import SYSTEM_NAMESPACE
from volcano.kube.client.protocol import Client, Event, EventType, Options, PatchType, Watch
from volcano.kube.controllers.controller import Controller
from volcano.kube.informers.reflector import Reflector, each_event
from volcano.nodes.pools import SimulatedNode
from volcano.nodes.simulated.controller import STOP_DELAY, SimulatedNodes
from volcano.nodes.simulated.devices import SimulatedDevices
from volcano.nodes.simulated.topology import SimulatedTopology
from volcano.scheduler.config_source import ConfigSource
from volcano.scheduler.history.cycle_history import CycleHistory
from volcano.scheduler.inputs import Readers
from volcano.scheduler.load.kubernetes import ReadNodeMetrics
from volcano.scheduler.loop import Scheduler, SchedulerContext
from volcano.scheduler.options import SchedulerOptions
from volcano.scheduler.plugins.extender import HttpPort
from volcano.scheduler.report.metrics import SchedulerMetrics
from volcano.scheduler.usage_history import ReadUsage

MakeController = Callable[[], Controller]
SCHEDULER = "volcano-scheduler"
CONTROLLERS = "volcano-controllers"
KUBELET = "kubelet"
METRICS = "resource-metrics"
IMAGES = "image-map"
ACCOUNTING = "accounting"
EVENT_EXPIRY = "event-expiry"
COMPACTION = "compaction"
KUBERNETES = "kubernetes"  # controllers of Kubernetes' own control plane


def controllers(
    options: ClusterOptions,
    nodes: Sequence[SimulatedNode],
    random: Random,
    authority: Authority,
    may_request: MayRequest,
    metrics: CompositeRegistry,
    dial: Dial,
) -> Mapping[str, list[MakeController]]:
    """Constructors of all controllers, by the component whose log they write to. `authority` signs certificates; `dial`
    connects to pods."""
    return {
        KUBERNETES: [
            lambda: NamespaceAccounts(authority.cert_pem.decode()),
            lambda: CertificateController(authority, may_request),
            GarbageCollector,
            NamespaceController,
            CrdFinalizer,
            DisruptionController,
            ResourceQuotaController,
            ReplicaSetController,
            DeploymentController,
            StatefulSetController,
            DaemonSetController,
            BatchJobController,
            BatchCronJobController,
            EndpointsController,
            NodeLifecycleController,
            ResourceClaimController,
            lambda: VolumeController(host_directory=str(options.directory / VOLUMES)),
            lambda: SimulatedDevices(nodes),
            lambda: SimulatedNodes(nodes, default_duration=options.sim_duration, stop_delay=STOP_DELAY),
            lambda: SimulatedTopology(options.topology, nodes[:-1]),  # without that of the control plane
        ],
        CONTROLLERS: [
            lambda: JobController(registry=metrics.reset(JobController.name)),
            lambda: QueueController(metrics.reset(QueueController.name)),
            PodGroupController,
            CronJobController,
            lambda: JobFlowController(metrics.reset(JobFlowController.name), dial=dial),
            JobTemplateController,
            ColocationController,
            lambda: HyperNodeController(
                lambda: "".join(random.choices(string.ascii_lowercase + string.digits, k=5))
            ),
        ],
    }


def scheduler(
    client: Client,
    clock: Clock,
    conf: str | None,
    metrics: CompositeRegistry,
    on_ready: Callable[[], None],
    read_node_metrics: ReadNodeMetrics,
    history: CycleHistory,
    read_usage: ReadUsage | None,
) -> Scheduler:
    """The scheduler. As the only one in the cluster, it also schedules pods of Kubernetes' default scheduler."""
    source = ConfigMapSource(client, conf)
    own_metrics = SchedulerMetrics(metrics.reset(SCHEDULER))
    options = SchedulerOptions(serve_default=True, scheduled_events=True)
    readers = Readers(read_node_metrics, read_usage)
    context = SchedulerContext(own_metrics, history, readers, on_ready=on_ready)
    return Scheduler(client, source, clock, options, context)


def priority_classes() -> list[tuple[Kind, Manifest]]:
    """The system priority classes."""
    return [(PRIORITY_CLASS, manifest) for manifest in system_priority_classes()]


def crds() -> list[tuple[Kind, Manifest]]:
    """The CRDs of Volcano's kinds."""
    return [(CRD, manifest) for manifest in our_crds.load()]


async def refresh_crd(client: Client, manifest: Manifest) -> None:
    """Updates a CRD that an older version of the program has installed."""
    options = Options(patch_type=PatchType.MERGE, field_manager="volcano")
    await client.patch(CRD, key_of(manifest), {"spec": manifest["spec"]}, options=options)


async def apply_scheduler_conf(client: Client, scheduler_conf: str | None) -> None:
    """Replaces the configuration of an earlier start by the one of this start, if it has one."""
    if scheduler_conf is not None:
        key = Key(SYSTEM_NAMESPACE, CONFIG_NAME)
        options = Options(patch_type=PatchType.MERGE, field_manager="volcano")
        await client.patch(CONFIG_MAP, key, {"data": {CONFIG_KEY: scheduler_conf}}, options=options)


def has_account(registry: Registry, namespace: str) -> Callable[[], bool]:
    """Whether a namespace has its default ServiceAccount; until then, pods are rejected there."""
    return lambda: registry.store.get(SERVICE_ACCOUNT.resource, Key(namespace, "default")) is not None


def has_queue(registry: Registry, name: str) -> Callable[[], bool]:
    return lambda: registry.store.get(QUEUE.resource, Key("", name)) is not None


def last_port(directory: Path) -> int:
    """The port of the last start in this directory, so that kubeconfigs stay valid; 0 when unknown."""
    try:
        url: str = json.loads((directory / STATE_FILE).read_text())["url"]
        return int(url.rpartition(":")[2])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


class ConfigMapSource(ConfigSource):
    """Watches the ConfigMap `volcano-scheduler-configmap` in volcano-system; keeps the last valid
    configuration."""

    def __init__(self, client: Client, text: str | None) -> None:
        file = f"ConfigMap {SYSTEM_NAMESPACE}/{CONFIG_NAME}"
        super().__init__(text, file, ports={"extender": HttpPort()})
        self._client = client

    async def watch(self, clock: Clock, on_change: Callable[[], None]) -> None:
        def on_event(event: Event) -> None:
            data = event.object.get("data") or {}
            if event.type is not EventType.DELETED and CONFIG_KEY in data and self.load(data[CONFIG_KEY]):
                on_change()

        watch = Watch(CONFIG_MAP, namespace=SYSTEM_NAMESPACE, fields=f"metadata.name={CONFIG_NAME}")
        await Reflector(self._client, watch, each_event(on_event), clock).run()
