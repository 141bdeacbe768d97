"""The command lines that podman and docker are given: one table of what differs, the rest is the same.

Everything that belongs to a cluster carries labels, so that whoever comes next finds, adopts or removes it.
"""

import csv
import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from volcano.nodes.shim.specs import ContainerSpec, Identity, Mount, SandboxSpec, Security

PREFIX = "volcano.sh"
CLUSTER = f"{PREFIX}/cluster"
HOLDER = f"{PREFIX}/holder"  # the process whose end is theirs; 0: they outlive it
PART = f"{PREFIX}/part"  # sandbox or container
POD = f"{PREFIX}/pod"
POD_UID = f"{PREFIX}/pod-uid"
CONTAINER = f"{PREFIX}/container"
ATTEMPT = f"{PREFIX}/attempt"
LOG = f"{PREFIX}/log"
DIRECTORY = f"{PREFIX}/directory"  # of a pod
SANDBOX_PART, CONTAINER_PART, PROBE_PART = "sandbox", "container", "trial"
EXEC_ID_VARIABLE = (
    "VOLCANO_EXEC_ID_VARIABLE"  # by which a further process in a container is known on the host
)
# What nobody rotates while no volcano runs stays below this.
MAX_LOG_SIZE = "200m"
# Variables that the engine's own program would heed: these are written out, all others are handed on by name,
# so that secrets are in no command line.
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
    """In what the engines differ."""

    name: str
    writes_logs: bool  # CRI lines, into a file of our choice; else its output is followed
    joins_hostname: bool  # containers share a UTS namespace; else the engine copies the sandbox's hostname
    info_format: str  # the template that tells its architecture and whether it runs without root
    network_options: tuple[str, ...] = ()  # further options
    create_options: tuple[str, ...] = ()
    read_only_options: tuple[str, ...] = ("--read-only",)
    remove_options: tuple[str, ...] = ()


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
)
PROFILES: Mapping[str, EngineProfile] = {profile.name: profile for profile in (PODMAN, DOCKER)}


@dataclass(frozen=True, slots=True)
class ClusterRef:
    """Whose things these are."""

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
    """What a trial found an engine to do on this machine."""

    network: bool = True
    limits: bool = True
    ulimits: tuple[str, ...] = ()  # what processes are limited to where the engine may not raise limits
    no_selinux_labels: bool = False  # SELinux would hide our files
    rootless: bool = False


def cluster_id(directory: str) -> str:
    """A short name of a data directory, the same for whoever uses it."""
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
    """Whatever the containers of a pod share is held by one that does nothing."""
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
    """A container as pods have them, to see whether it starts."""
    network = cluster.network if capabilities.network else "none"
    limits = ["--memory=64m", "--memory-swap=64m", "--cpus=1"] if capabilities.limits else []
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
    """One start of a container. Its environment is handed on by name: see `inherited_environment`."""
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
        *(_limit_options(spec) if capabilities.limits else ()),
        *(["--interactive"] if spec.stdin else []),
        *(["--tty"] if spec.tty else []),
    ]
    if spec.command and spec.own_entrypoint:
        return [*arguments, f"--entrypoint={spec.command[0]}", spec.image, *spec.command[1:]]
    return [*arguments, spec.image, *spec.command]


def inherited_environment(spec: ContainerSpec) -> dict[str, str]:
    """The variables that the engine's program takes from its own environment."""
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
    """As both engines read it: comma-separated values, with their quotes."""
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
    if security.read_only_root:
        yield from profile.read_only_options


def _limit_options(spec: ContainerSpec) -> Iterator[str]:
    if spec.memory_limit:
        yield f"--memory={spec.memory_limit}b"
        yield f"--memory-swap={spec.memory_limit}b"
    if spec.cpu_limit:
        yield f"--cpus={spec.cpu_limit:g}"
    if spec.cpu_request or spec.cpu_limit:
        yield f"--cpu-shares={max(2, int((spec.cpu_request or spec.cpu_limit) * 1024))}"


def execute(
    container: str,
    command: Sequence[str],
    exec_id: str,
    *,
    stdin: bool,
    tty: bool,
    environment: Mapping[str, str],
) -> list[str]:
    """A further process in a container, found again on the host by its mark."""
    variables = {**({"TERM": "xterm"} if tty else {}), **environment, EXEC_ID_VARIABLE: exec_id}
    return [
        *("exec", *(["--interactive"] if stdin or tty else []), *(["--tty"] if tty else [])),
        *(f"--env={name}={value}" for name, value in variables.items()),
        *(container, *command),
    ]


def attach(container: str, *, stdin: bool) -> list[str]:
    return ["attach", *([] if stdin else ["--no-stdin"]), "--sig-proxy=false", "--detach-keys=", container]
