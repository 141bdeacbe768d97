"""A complete workload: manifests that together exercise every permission of the programs."""

from typing import Any

Object = dict[str, Any]
NAMESPACE = "work"
FOREVER = "600s"
GATE = "scheduling.volcano.sh/queue-allocation-gate"


def named(kind: str, api_version: str, name: str, *, namespace: str = NAMESPACE, **content: Any) -> Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


def pod_template(cpu: str = "100m", runs: str = "1s", **spec: Any) -> Object:
    """A pod that runs for a given time on a simulated node."""
    notes = {"volcano.sh/sim-duration": runs, "volcano.sh/preemptable": "true", **spec.pop("notes", {})}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"annotations": notes, "labels": spec.pop("labels", {})},
        "spec": {"restartPolicy": "Never", "containers": [container], **spec},
    }


def job(
    name: str,
    replicas: int = 2,
    *,
    cpu: str = "100m",
    runs: str = "1s",
    pod: Object | None = None,
    **spec: Any,
) -> Object:
    task = {
        "name": "worker",
        "replicas": replicas,
        "minAvailable": 1,
        "template": pod_template(cpu, runs, **(pod or {})),
    }
    return named("Job", "batch.volcano.sh/v1alpha1", name, spec={"minAvailable": 1, "tasks": [task]} | spec)


def queue(name: str, **spec: Any) -> Object:
    return named("Queue", "scheduling.volcano.sh/v1beta1", name, namespace="", spec={"weight": 1} | spec)


def plugins_job() -> Object:
    """A gang with every object that job plugins create."""
    tasks = [
        {"name": "master", "replicas": 1, "template": pod_template()},
        {"name": "worker", "replicas": 2, "template": pod_template()},
    ]
    plugins = {
        "env": [],
        "svc": [],
        "ssh": [],
        "pytorch": ["--master=master", "--worker=worker", "--port=23456"],
    }
    spec = {"minAvailable": 3, "tasks": tasks, "plugins": plugins, "ttlSecondsAfterFinished": 1}
    return named("Job", "batch.volcano.sh/v1alpha1", "gang", spec=spec)


def foreign_objects() -> list[Object]:
    """Objects of another owner with the names that the job `foreign` would use."""
    return [
        named("Service", "v1", "foreign", spec={"ports": [{"port": 1}]}),
        named("ConfigMap", "v1", "foreign-svc", data={"mine": "yes"}),
        named("Secret", "v1", "foreign-ssh", stringData={"mine": "yes"}),
        named("NetworkPolicy", "networking.k8s.io/v1", "foreign", spec={"podSelector": {}}),
    ]


def claims_job() -> Object:
    """A job with a generated claim, which is bound to a volume when its pod is scheduled."""
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "late",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    volumes = [{"mountPath": "/data", "volumeClaim": claim}]
    return job("claims", 1, volumes=volumes)


DRIVER = "gpu.example.com"


def devices() -> list[Object]:
    """A job whose pod claims a device."""
    request = {"name": "gpu", "exactly": {"deviceClassName": DRIVER}}
    spec = {"spec": {"devices": {"requests": [request]}}}
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    template = named("ResourceClaimTemplate", "resource.k8s.io/v1", "gpu", spec=spec)
    return [template, job("devices", 1, pod={"resourceClaims": claims})]


def storage() -> list[Object]:
    """A StorageClass that binds on first consumer with one volume, and one with dynamic provisioning."""
    late = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    made = {"provisioner": "made.example/x", "volumeBindingMode": "WaitForFirstConsumer"}
    volume = {
        "capacity": {"storage": "5Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "late",
        "hostPath": {"path": "/data"},
    }
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "made",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return [
        named("StorageClass", "storage.k8s.io/v1", "late", namespace="", **late),
        named("StorageClass", "storage.k8s.io/v1", "made", namespace="", **made),
        named("PersistentVolume", "v1", "volume", namespace="", spec=volume),
        named("PersistentVolumeClaim", "v1", "provisioned", spec=claim),
    ]


def provisioned_job() -> Object:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "provisioned"}}]
    return job("provisioned", 1, pod={"volumes": volumes})


def deployment(replicas: int = 2) -> Object:
    """A Deployment that uses our scheduler."""
    template = pod_template(runs=FOREVER, labels={"app": "web"}, schedulerName="volcano")
    template["spec"]["restartPolicy"] = "Always"
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return named("Deployment", "apps/v1", "web", spec=spec)


OTHERS = ("stateful", "daemon", "batch", "plain")


def other_workloads() -> list[Object]:
    """One workload of each other kind that may use our scheduler."""

    def template(name: str, policy: str = "Always") -> Object:
        made = pod_template(runs=FOREVER, labels={"app": name, "others": "yes"}, schedulerName="volcano")
        made["spec"]["restartPolicy"] = policy
        return made

    def selecting(name: str) -> Object:
        return {"selector": {"matchLabels": {"app": name}}, "template": template(name)}

    stateful = {**selecting("stateful"), "serviceName": "stateful", "replicas": 1}
    workloads = [
        named("StatefulSet", "apps/v1", "stateful", spec=stateful),
        named("DaemonSet", "apps/v1", "daemon", spec=selecting("daemon")),
        named("Job", "batch/v1", "batch", spec={"template": template("batch", "Never")}),
    ]
    plain = template("plain", "Never")
    for workload in workloads:
        workload["metadata"]["labels"] = {"others": "yes"}
    plain["metadata"] |= {"name": "plain", "namespace": NAMESPACE}
    return [*workloads, {"apiVersion": "v1", "kind": "Pod", **plain}]


def gated_job() -> Object:
    return job("gated", 1, pod={"notes": {GATE: "true"}})


def flow() -> list[Object]:
    template = job("unused")["spec"]
    templates = [
        named("JobTemplate", "flow.volcano.sh/v1alpha1", name, spec=template) for name in ("first", "second")
    ]
    steps = [{"name": "first"}, {"name": "second", "dependsOn": {"targets": ["first"]}}]
    spec = {"flows": steps, "jobRetainPolicy": "delete"}
    return [*templates, named("JobFlow", "flow.volcano.sh/v1alpha1", "flow", spec=spec)]


def cron_job() -> Object:
    spec = {
        "schedule": "* * * * *",
        "concurrencyPolicy": "Allow",
        "successfulJobsHistoryLimit": 0,
        "jobTemplate": {"spec": job("unused")["spec"]},
    }
    return named("CronJob", "batch.volcano.sh/v1alpha1", "cron", spec=spec)


def hyper_node() -> Object:
    members = [{"type": "Node", "selector": {"exactMatch": {"name": "node-0"}}}]
    spec = {"tier": 1, "members": members}
    return named("HyperNode", "topology.volcano.sh/v1alpha1", "by-hand", namespace="", spec=spec)


def priority(name: str, value: int) -> Object:
    return named("PriorityClass", "scheduling.k8s.io/v1", name, namespace="", value=value)
