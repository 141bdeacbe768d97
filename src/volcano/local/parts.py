"""The parts a local cluster is made of: which controllers run under which component, and who admits what."""

import copy
import json
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from volcano.admission.review import Settings as AdmissionSettings
from volcano.apiserver.admission.chain import after_webhooks, before_webhooks, system_priority_classes
from volcano.apiserver.interfaces import Admit
from volcano.apiserver.registry.pod_defaulting import default_template
from volcano.apiserver.registry.registry import Registry
from volcano.apiserver.schema.validation.pods import template
from volcano.clock import Clock
from volcano.controllers.cronjob import CronJobController
from volcano.controllers.hypernode import HyperNodeController
from volcano.controllers.job.controller import JobController
from volcano.controllers.job.plugins.loading import known_plugins
from volcano.controllers.jobflow import JobFlowController, JobTemplateController
from volcano.controllers.kubernetes.daemonset import DaemonSetController
from volcano.controllers.kubernetes.deployment import DeploymentController
from volcano.controllers.kubernetes.disruption import DisruptionController
from volcano.controllers.kubernetes.endpoints import EndpointsController
from volcano.controllers.kubernetes.garbage_collector import GarbageCollector
from volcano.controllers.kubernetes.job import JobController as BatchJobController
from volcano.controllers.kubernetes.namespace import CrdFinalizer, NamespaceController
from volcano.controllers.kubernetes.node_lifecycle import NodeLifecycleController
from volcano.controllers.kubernetes.quota import ResourceQuotaController
from volcano.controllers.kubernetes.replicaset import ReplicaSetController
from volcano.controllers.kubernetes.service_accounts import NamespaceAccounts
from volcano.controllers.kubernetes.statefulset import StatefulSetController
from volcano.controllers.kubernetes.volumes import VolumeController
from volcano.controllers.podgroup import PodGroupController
from volcano.controllers.queue import QueueController
from volcano.kube import crds as our_crds
from volcano.kube import names
from volcano.kube.client import Client, Options, PatchType
from volcano.kube.controller import Controller
from volcano.kube.errors import Cause
from volcano.kube.kinds import CONFIG_MAP, CRD, PRIORITY_CLASS, QUEUE, SERVICE_ACCOUNT, Kind
from volcano.kube.manifest import Key, Manifest, key_of
from volcano.local.admission import completing, judging
from volcano.local.configmap import ConfigMapSource
from volcano.local.state import STATE_FILE, VOLUMES
from volcano.local.system import CONFIG_KEY, CONFIG_NAME
from volcano.metrics import CompositeRegistry
from volcano.nodes.pools import SimulatedNode
from volcano.nodes.simulated.controller import SimulatedNodes
from volcano.scheduler.loop import Scheduler
from volcano.scheduler.options import SchedulerOptions
from volcano.scheduler.report.metrics import SchedulerMetrics

if TYPE_CHECKING:
    from volcano.local.cluster import Settings

MakeController = Callable[[], Controller]
SCHEDULER = "volcano-scheduler"
CONTROLLERS = "volcano-controllers"
AGENT = "node-agent"
KUBERNETES = "kubernetes"  # what a real cluster's own control plane does


def controllers(
    settings: "Settings",
    nodes: Sequence[SimulatedNode],
    random: Random,
    authority: str,
    metrics: CompositeRegistry,
) -> Mapping[str, list[MakeController]]:
    """How to make every controller, by the component whose log it writes to."""
    return {
        KUBERNETES: [
            lambda: NamespaceAccounts(authority),
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
            EndpointsController,
            NodeLifecycleController,
            lambda: VolumeController(host_directory=str(settings.directory / VOLUMES)),
            lambda: SimulatedNodes(nodes, default_duration=settings.sim_duration),
        ],
        CONTROLLERS: [
            lambda: JobController(registry=metrics.reset(JobController.name)),
            lambda: QueueController(metrics.reset(QueueController.name)),
            PodGroupController,
            CronJobController,
            lambda: JobFlowController(metrics.reset(JobFlowController.name)),
            JobTemplateController,
            lambda: HyperNodeController(
                lambda: "".join(random.choices(string.ascii_lowercase + string.digits, k=5))
            ),
        ],
    }


def scheduler(
    client: Client, clock: Clock, conf: str | None, metrics: CompositeRegistry, on_ready: Callable[[], None]
) -> Scheduler:
    """Our scheduler. There is no other here: it also places the pods that ask for Kubernetes' default one."""
    source = ConfigMapSource(client, conf)
    own_metrics = SchedulerMetrics(metrics.reset(SCHEDULER))
    options = SchedulerOptions(serve_default=True)
    return Scheduler(client, source, clock, options, metrics=own_metrics, on_ready=on_ready)


def priority_classes() -> list[tuple[Kind, Manifest]]:
    """The priority classes every cluster has."""
    return [(PRIORITY_CLASS, manifest) for manifest in system_priority_classes()]


def crds() -> list[tuple[Kind, Manifest]]:
    """Our own kinds, as CRDs to install."""
    return [(CRD, manifest) for manifest in our_crds.load()]


async def refresh_crd(client: Client, manifest: Manifest) -> None:
    """Brings a CRD of an older version of this program up to date."""
    options = Options(patch_type=PatchType.MERGE, field_manager="volcano")
    await client.patch(CRD, key_of(manifest), {"spec": manifest["spec"]}, options=options)


async def put_in_force(client: Client, scheduler_conf: str | None) -> None:
    """The configuration that a start asks for replaces the one that an earlier start has left."""
    if scheduler_conf is not None:
        key = Key(names.SYSTEM_NAMESPACE, CONFIG_NAME)
        options = Options(patch_type=PatchType.MERGE, field_manager="volcano")
        await client.patch(CONFIG_MAP, key, {"data": {CONFIG_KEY: scheduler_conf}}, options=options)


def admission() -> tuple[list[Admit], list[Admit]]:
    """What fills in and judges before webhooks are asked, and what counts the final object."""
    settings = AdmissionSettings(check_template=check_template, job_plugins=frozenset(known_plugins()))
    return [*before_webhooks(), completing(settings)], [judging(settings), *after_webhooks()]


def check_template(value: Manifest) -> Iterable[Cause]:
    """Kubernetes' own validation of a pod template, with the defaults a server would give it."""
    holder = {"template": copy.deepcopy(value)}
    default_template(holder)
    for cause in template(holder["template"], "template"):
        yield cause._replace(field=cause.field.removeprefix("template."))


def has_account(registry: Registry, namespace: str) -> Callable[[], bool]:
    """Whether a namespace has the account its pods run as: before, pods are refused there."""
    return lambda: registry.store.get(SERVICE_ACCOUNT.resource, Key(namespace, "default")) is not None


def has_queue(registry: Registry, name: str) -> Callable[[], bool]:
    return lambda: registry.store.get(QUEUE.resource, Key("", name)) is not None


def last_port(directory: Path) -> int:
    """The port a cluster in this directory had the last time, so that kubeconfigs stay true; 0 when none."""
    try:
        url: str = json.loads((directory / STATE_FILE).read_text())["url"]
        return int(url.rpartition(":")[2])
    except (OSError, ValueError, KeyError, TypeError):
        return 0
