"""Command lines for podman and docker; `EngineProfile` holds the differences.

Everything that belongs to a cluster carries labels, by which a later process finds, adopts or removes it.
"""

import csv
import hashlib
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from volcano.nodes.shim.specs import ContainerSpec, GpuAccess, Identity, Mount, SandboxSpec, Security

PREFIX = "volcano.sh"
CLUSTER = f"{PREFIX}/cluster"
HOLDER = f"{PREFIX}/holder"  # pid of the process with which they end; 0: they survive it
PART = f"{PREFIX}/part"  # sandbox, container or trial
POD = f"{PREFIX}/pod"
POD_UID = f"{PREFIX}/pod-uid"
CONTAINER = f"{PREFIX}/container"
ATTEMPT = f"{PREFIX}/attempt"
CDI_KIND = "nvidia.com/gpu"
LOG = f"{PREFIX}/log"
DIRECTORY = f"{PREFIX}/directory"  # of a pod
SANDBOX_PART, CONTAINER_PART, PROBE_PART = "sandbox", "container", "trial"
EXEC_ID_VARIABLE = "VOLCANO_EXECUTION"  # identifies an executed process on the host
# Limit of a log while no volcano runs to rotate it.
MAX_LOG_SIZE = "200m"
# Variables that the engine's own program evaluates are passed by value, all others by name only, so that
# secrets do not appear in command lines.
_PROXIES = ("all_proxy", "https_proxy", "http_proxy", "no_proxy")
_ENGINE_VARIABLES = frozenset(
    (
        *("HOME", "LANG", "LOGNAME", "NOTIFY_SOCKET", "PATH", "TERM", "TMPDIR", "TZ", "USER"),
        *_PROXIES,
        *(name.upper() for name in _PROXIES),
    )
)
_ENGINE_VARIABLE_PREFIXES = (
    *("BUILDAH_", "CONTAINERS_", "CONTAINER_", "DBUS_", "DOCKER_", "GO", "LC_", "LD_", "LISTEN_", "PODMAN_"),
    *("REGISTRY_", "SSL_", "STORAGE_", "XDG_", "_"),
)


@dataclass(frozen=True, slots=True)
class EngineProfile:
    """Differences between the engines."""

    name: str
    writes_logs: bool  # CRI logs in a file of our choice; else its output is followed
    joins_hostname: bool  # containers share a UTS namespace; else the engine copies the sandbox's hostname
    info_format: str  # template that prints the architecture and whether the engine is rootless
    network_options: tuple[str, ...] = ()  # additional options of each command
    create_options: tuple[str, ...] = ()
    read_only_options: tuple[str, ...] = ("--read-only",)
    remove_options: tuple[str, ...] = ()
    cdi: bool = True  # GPUs are named as devices of the Container Device Interface; else by --gpus


PODMAN = EngineProfile(
    "podman",
    writes_logs=True,
    joins_hostname=True,
    info_format="{{.Host.Arch}} rootless={{.Host.Security.Rootless}}",
    network_options=("--disable-dns",),
    create_options=("--http-proxy=false", "--systemd=false", "--no-hosts"),
    read_only_options=("--read-only", "--read-only-tmpfs=false"),
    remove_options=("--time=0",),
)
DOCKER = EngineProfile(
    "docker",
    writes_logs=False,
    joins_hostname=False,
    info_format="{{.Architecture}} {{.SecurityOptions}}",
    cdi=False,
)
PROFILES: Mapping[str, EngineProfile] = {profile.name: profile for profile in (PODMAN, DOCKER)}


@dataclass(frozen=True, slots=True)
class ClusterRef:
    """The cluster that containers belong to, as expressed in labels and names."""

    id: str
    holder: int = 0  # pid of the process that holds the lifeline; 0 for none

    @property
    def network(self) -> str:
        return f"volcano-{self.id}"

    def filters(self, *more: str) -> list[str]:
        return [f"--filter=label={label}" for label in (f"{CLUSTER}={self.id}", *more)]

    def labels(self, part: str, **more: object) -> list[str]:
        known = {CLUSTER: self.id, HOLDER: self.holder, PART: part, **more}
        return [f"--label={name}={value}" for name, value in known.items()]


@dataclass(frozen=True, slots=True)
class EngineCapabilities:
    """Result of the probe: what the engine can do on this machine."""

    network: bool = True
    limits: bool = True
    cpusets: bool = True  # containers can be limited to CPUs
    ulimits: tuple[str, ...] = ()  # limits of processes where the engine may not raise them
    no_selinux_labels: bool = False  # SELinux would deny access to mounted files
    rootless: bool = False


def cluster_id(directory: str) -> str:
    """Short id of a cluster, derived from its data directory."""
    return hashlib.sha256(directory.encode()).hexdigest()[:12]


def sandbox_name(cluster: ClusterRef, pod: str) -> str:
    return f"volcano-{cluster.id}-{pod}"


def container_name(cluster: ClusterRef, pod: str, container: str, attempt: int) -> str:
    return f"{sandbox_name(cluster, pod)}-{container}-{attempt}"


def create_sandbox(
    profile: EngineProfile,
    cluster: ClusterRef,
    capabilities: EngineCapabilities,
    spec: SandboxSpec,
    image: str,
) -> list[str]:
    """Creates the pause container, which holds the namespaces that the containers of a pod share."""
    network = "host" if spec.host_network else cluster.network if capabilities.network else "none"
    labels = {POD_UID: spec.uid, POD: f"{spec.namespace}/{spec.name}", DIRECTORY: spec.directory}
    command = [
        *("create", "--pull=never", f"--name={sandbox_name(cluster, spec.uid)}"),
        *cluster.labels(SANDBOX_PART, **labels),
        *(f"--network={network}", f"--ipc={'host' if spec.host_ipc else 'shareable'}"),
        *(["--pid=host"] if spec.host_pid else []),
        f"--hostname={spec.hostname}",
        *_minimal_options(profile, capabilities),
    ]
    return [*command, image]


def create_probe(
    profile: EngineProfile, cluster: ClusterRef, capabilities: EngineCapabilities, image: str
) -> list[str]:
    """Creates a container like a pod's for the capability probe."""
    network = cluster.network if capabilities.network else "none"
    limits = ["--memory=64m", "--memory-swap=64m", "--cpus=1"] if capabilities.limits else []
    if capabilities.limits and capabilities.cpusets:
        limits.append(f"--cpuset-cpus={min(os.sched_getaffinity(0))}")
    labels = cluster.labels(PROBE_PART)
    return [
        "create",
        "--pull=never",
        *labels,
        f"--network={network}",
        *limits,
        *_minimal_options(profile, capabilities),
        image,
    ]


def _minimal_options(profile: EngineProfile, capabilities: EngineCapabilities) -> list[str]:
    minimal = ["--cap-drop=ALL", "--security-opt=no-new-privileges", "--log-driver=none"]
    return [*minimal, *profile.read_only_options, *profile.create_options, *_common_options(capabilities)]


def _common_options(capabilities: EngineCapabilities) -> list[str]:
    unlabelled = ["--security-opt=label=disable"] if capabilities.no_selinux_labels else []
    return [*(f"--ulimit={limit}" for limit in capabilities.ulimits), *unlabelled]


def create_container(
    profile: EngineProfile,
    cluster: ClusterRef,
    capabilities: EngineCapabilities,
    sandbox: SandboxSpec,
    spec: ContainerSpec,
    mounts: Sequence[Mount],
) -> list[str]:
    """Creates one attempt of a container. Its environment is passed by name: see `inherited_environment`."""
    labels = {POD_UID: spec.pod, CONTAINER: spec.name, ATTEMPT: spec.attempt, LOG: spec.log_path}
    arguments = [
        *("create", "--pull=never", "--no-healthcheck"),
        f"--name={container_name(cluster, spec.pod, spec.name, spec.attempt)}",
        *cluster.labels(CONTAINER_PART, **labels),
        *_namespace_options(profile, cluster, sandbox),
        *profile.create_options,
        *_common_options(capabilities),
        *_log_options(profile, spec),
        *(f"--mount={_mount(mount)}" for mount in mounts),
        *(f"--env={name}={value}" for name, value in spec.environment.items() if affects_engine(name)),
        *(f"--env={name}" for name in inherited_environment(spec)),
        *([f"--workdir={spec.working_directory}"] if spec.working_directory else []),
        *_user_options(spec.identity),
        *_security_options(profile, spec.security),
        *_gpu_options(profile, spec.gpus),
        *(_limit_options(spec) if capabilities.limits else ()),
        *(_cpu_options(spec) if capabilities.limits and capabilities.cpusets else ()),
        *([f"--pids-limit={sandbox.pids_limit}"] if capabilities.limits and sandbox.pids_limit else []),
        *(["--interactive"] if spec.stdin else []),
        *(["--tty"] if spec.tty else []),
    ]
    if spec.command and spec.own_entrypoint:
        return [*arguments, f"--entrypoint={spec.command[0]}", spec.image, *spec.command[1:]]
    return [*arguments, spec.image, *spec.command]


def inherited_environment(spec: ContainerSpec) -> dict[str, str]:
    """Variables that the engine copies from its own environment."""
    return {name: value for name, value in spec.environment.items() if not affects_engine(name)}


def affects_engine(name: str) -> bool:
    return name in _ENGINE_VARIABLES or name.startswith(_ENGINE_VARIABLE_PREFIXES)


def _namespace_options(profile: EngineProfile, cluster: ClusterRef, sandbox: SandboxSpec) -> Iterator[str]:
    joined = f"container:{sandbox_name(cluster, sandbox.uid)}"
    yield f"--network={'host' if sandbox.host_network else joined}"
    yield f"--ipc={'host' if sandbox.host_ipc else joined}"
    if sandbox.host_pid or sandbox.share_pid:
        yield f"--pid={'host' if sandbox.host_pid else joined}"
    if profile.joins_hostname:
        yield f"--uts={joined}"
    elif sandbox.host_network:
        yield f"--hostname={sandbox.hostname}"


def _log_options(profile: EngineProfile, spec: ContainerSpec) -> list[str]:
    if profile.writes_logs:
        return [
            "--log-driver=k8s-file",
            f"--log-opt=path={spec.log_path}",
            f"--log-opt=max-size={MAX_LOG_SIZE}",
        ]
    return ["--log-driver=json-file", "--log-opt=max-size=10m", "--log-opt=max-file=5"]


def _mount(mount: Mount) -> str:
    """A --mount option in CSV format, which both engines parse."""
    text = io.StringIO()
    fields = ["type=bind", f"source={mount.source}", f"target={mount.target}"]
    csv.writer(text, lineterminator="").writerow([*fields, *(["readonly"] if mount.read_only else [])])
    return text.getvalue()


def _user_options(identity: Identity) -> Iterator[str]:
    user = "" if identity.user is None else str(identity.user)
    if identity.group is not None:
        yield f"--user={user}:{identity.group}"
    elif user:
        yield f"--user={user}"
    yield from (f"--group-add={group}" for group in identity.groups)


def _security_options(profile: EngineProfile, security: Security) -> Iterator[str]:
    if security.privileged:
        yield "--privileged"
    yield from (f"--cap-add={name}" for name in security.add_capabilities)
    yield from (f"--cap-drop={name}" for name in security.drop_capabilities)
    if security.no_new_privileges:
        yield "--security-opt=no-new-privileges"
    if security.no_seccomp:  # the engine's default profile is RuntimeDefault
        yield "--security-opt=seccomp=unconfined"
    if security.read_only_root:
        yield from profile.read_only_options


def _gpu_options(profile: EngineProfile, gpus: GpuAccess) -> Iterator[str]:
    """GPUs by UUID, which does not change as the indexes of nvidia-smi may."""
    if profile.cdi:
        yield from (f"--device={CDI_KIND}={name}" for name in gpus.names)
    elif gpus.names:
        # The engine parses the value as CSV: the quotes keep the list of devices in one field.
        yield f'--gpus="device={",".join(gpus.names)}"'


def _limit_options(spec: ContainerSpec) -> Iterator[str]:
    if spec.memory_limit:
        yield f"--memory={spec.memory_limit}b"
        yield f"--memory-swap={spec.memory_limit}b"
    if spec.cpu_limit:
        yield f"--cpus={spec.cpu_limit:g}"
    if spec.cpu_request or spec.cpu_limit:
        yield f"--cpu-shares={max(2, int((spec.cpu_request or spec.cpu_limit) * 1024))}"


def _cpu_options(spec: ContainerSpec) -> Iterator[str]:
    if spec.cpus:
        yield f"--cpuset-cpus={','.join(map(str, spec.cpus))}"


def execute(
    container: str,
    command: Sequence[str],
    exec_id: str,
    *,
    stdin: bool,
    tty: bool,
    environment: Mapping[str, str],
) -> list[str]:
    """Executes a process in a container; it can be found on the host by its exec id."""
    variables = {**({"TERM": "xterm"} if tty else {}), **environment, EXEC_ID_VARIABLE: exec_id}
    return [
        *("exec", *(["--interactive"] if stdin or tty else []), *(["--tty"] if tty else [])),
        *(f"--env={name}={value}" for name, value in variables.items()),
        *(container, *command),
    ]


def attach(container: str, *, stdin: bool) -> list[str]:
    return ["attach", *([] if stdin else ["--no-stdin"]), "--sig-proxy=false", "--detach-keys=", container]
