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
SANDBOX_PART, CONTAINER_PART, TRIAL_PART = "sandbox", "container", "trial"
EXECUTION = "VOLCANO_EXECUTION"  # by which a further process in a container is known on the host
# What nobody rotates while no volcano runs stays below this.
LARGEST_LOG = "200m"
# Variables that the engine's own program would heed: these are written out, all others are handed on by name,
# so that secrets are in no command line.
_PROXIES = ("all_proxy", "https_proxy", "http_proxy", "no_proxy")
_HEEDED = frozenset(
    (
        *("HOME", "LANG", "LOGNAME", "NOTIFY_SOCKET", "PATH", "TERM", "TMPDIR", "TZ", "USER"),
        *_PROXIES,
        *(name.upper() for name in _PROXIES),
    )
)
_HEEDED_FAMILIES = (
    *("BUILDAH_", "CONTAINERS_", "CONTAINER_", "DBUS_", "DOCKER_", "GO", "LC_", "LD_", "LISTEN_", "PODMAN_"),
    *("REGISTRY_", "SSL_", "STORAGE_", "XDG_", "_"),
)


@dataclass(frozen=True, slots=True)
class Flavour:
    """In what the engines differ."""

    name: str
    writes_logs: bool  # CRI lines, into a file of our choice; else its output is followed
    joins_hostname: bool  # containers share a UTS namespace; else the engine copies the sandbox's hostname
    facts: str  # the template that tells its architecture and whether it runs without root
    networks: tuple[str, ...] = ()  # further options
    creates: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ("--read-only",)
    removes: tuple[str, ...] = ()


PODMAN = Flavour(
    "podman",
    writes_logs=True,
    joins_hostname=True,
    facts="{{.Host.Arch}} rootless={{.Host.Security.Rootless}}",
    networks=("--disable-dns",),
    creates=("--http-proxy=false", "--systemd=false", "--no-hosts"),
    read_only=("--read-only", "--read-only-tmpfs=false"),
    removes=("--time=0",),
)
DOCKER = Flavour(
    "docker",
    writes_logs=False,
    joins_hostname=False,
    facts="{{.Architecture}} {{.SecurityOptions}}",
)
FLAVOURS: Mapping[str, Flavour] = {flavour.name: flavour for flavour in (PODMAN, DOCKER)}


@dataclass(frozen=True, slots=True)
class Belonging:
    """Whose things these are."""

    cluster: str
    holder: int = 0

    @property
    def network(self) -> str:
        return f"volcano-{self.cluster}"

    def filters(self, *more: str) -> list[str]:
        return [f"--filter=label={label}" for label in (f"{CLUSTER}={self.cluster}", *more)]

    def labels(self, part: str, **more: object) -> list[str]:
        known = {CLUSTER: self.cluster, HOLDER: self.holder, PART: part, **more}
        return [f"--label={name}={value}" for name, value in known.items()]


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a trial found an engine to do on this machine."""

    network: bool = True
    limits: bool = True
    ulimits: tuple[str, ...] = ()  # what processes are limited to where the engine may not raise limits
    unlabelled: bool = False  # SELinux would hide our files
    rootless: bool = False


def cluster_of(directory: str) -> str:
    """A short name of a data directory, the same for whoever uses it."""
    return hashlib.sha256(directory.encode()).hexdigest()[:12]


def sandbox_name(belonging: Belonging, pod: str) -> str:
    return f"volcano-{belonging.cluster}-{pod}"


def container_name(belonging: Belonging, pod: str, container: str, attempt: int) -> str:
    return f"{sandbox_name(belonging, pod)}-{container}-{attempt}"


def create_sandbox(
    flavour: Flavour, belonging: Belonging, able: Abilities, spec: SandboxSpec, image: str
) -> list[str]:
    """Whatever the containers of a pod share is held by one that does nothing."""
    network = "host" if spec.host_network else belonging.network if able.network else "none"
    labels = {POD_UID: spec.uid, POD: f"{spec.namespace}/{spec.name}", DIRECTORY: spec.directory}
    command = [
        *("create", "--pull=never", f"--name={sandbox_name(belonging, spec.uid)}"),
        *belonging.labels(SANDBOX_PART, **labels),
        *(f"--network={network}", f"--ipc={'host' if spec.host_ipc else 'shareable'}"),
        *(["--pid=host"] if spec.host_pid else []),
        f"--hostname={spec.hostname}",
        *_harmless(flavour, able),
    ]
    return [*command, image]


def create_trial(flavour: Flavour, belonging: Belonging, able: Abilities, image: str) -> list[str]:
    """A container as pods have them, to see whether it starts."""
    network = belonging.network if able.network else "none"
    limits = ["--memory=64m", "--memory-swap=64m", "--cpus=1"] if able.limits else []
    labels = belonging.labels(TRIAL_PART)
    return [
        "create",
        "--pull=never",
        *labels,
        f"--network={network}",
        *limits,
        *_harmless(flavour, able),
        image,
    ]


def _harmless(flavour: Flavour, able: Abilities) -> list[str]:
    nothing = ["--cap-drop=ALL", "--security-opt=no-new-privileges", "--log-driver=none"]
    return [*nothing, *flavour.read_only, *flavour.creates, *_usual(able)]


def _usual(able: Abilities) -> list[str]:
    unlabelled = ["--security-opt=label=disable"] if able.unlabelled else []
    return [*(f"--ulimit={limit}" for limit in able.ulimits), *unlabelled]


def create_container(
    flavour: Flavour,
    belonging: Belonging,
    able: Abilities,
    sandbox: SandboxSpec,
    spec: ContainerSpec,
    mounts: Sequence[Mount],
) -> list[str]:
    """One start of a container. Its environment is handed on by name: see `handed_on`."""
    labels = {POD_UID: spec.pod, CONTAINER: spec.name, ATTEMPT: spec.attempt, LOG: spec.log_path}
    words = [
        *("create", "--pull=never", "--no-healthcheck"),
        f"--name={container_name(belonging, spec.pod, spec.name, spec.attempt)}",
        *belonging.labels(CONTAINER_PART, **labels),
        *_shared(flavour, belonging, sandbox),
        *flavour.creates,
        *_usual(able),
        *_log(flavour, spec),
        *(f"--mount={_mount(mount)}" for mount in mounts),
        *(f"--env={name}={value}" for name, value in spec.environment.items() if is_heeded(name)),
        *(f"--env={name}" for name in handed_on(spec)),
        *([f"--workdir={spec.working_directory}"] if spec.working_directory else []),
        *_who(spec.identity),
        *_may(flavour, spec.security),
        *(_limits(spec) if able.limits else ()),
        *(["--interactive"] if spec.stdin else []),
        *(["--tty"] if spec.tty else []),
    ]
    if spec.command and spec.own_entrypoint:
        return [*words, f"--entrypoint={spec.command[0]}", spec.image, *spec.command[1:]]
    return [*words, spec.image, *spec.command]


def handed_on(spec: ContainerSpec) -> dict[str, str]:
    """The variables that the engine's program takes from its own environment."""
    return {name: value for name, value in spec.environment.items() if not is_heeded(name)}


def is_heeded(name: str) -> bool:
    return name in _HEEDED or name.startswith(_HEEDED_FAMILIES)


def _shared(flavour: Flavour, belonging: Belonging, sandbox: SandboxSpec) -> Iterator[str]:
    holder = f"container:{sandbox_name(belonging, sandbox.uid)}"
    yield f"--network={'host' if sandbox.host_network else holder}"
    yield f"--ipc={'host' if sandbox.host_ipc else holder}"
    if sandbox.host_pid or sandbox.share_pid:
        yield f"--pid={'host' if sandbox.host_pid else holder}"
    if flavour.joins_hostname:
        yield f"--uts={holder}"
    elif sandbox.host_network:
        yield f"--hostname={sandbox.hostname}"


def _log(flavour: Flavour, spec: ContainerSpec) -> list[str]:
    if flavour.writes_logs:
        return [
            "--log-driver=k8s-file",
            f"--log-opt=path={spec.log_path}",
            f"--log-opt=max-size={LARGEST_LOG}",
        ]
    return ["--log-driver=json-file", "--log-opt=max-size=10m", "--log-opt=max-file=5"]


def _mount(mount: Mount) -> str:
    """As both engines read it: comma-separated values, with their quotes."""
    text = io.StringIO()
    fields = ["type=bind", f"source={mount.source}", f"target={mount.target}"]
    csv.writer(text, lineterminator="").writerow([*fields, *(["readonly"] if mount.read_only else [])])
    return text.getvalue()


def _who(identity: Identity) -> Iterator[str]:
    user = "" if identity.user is None else str(identity.user)
    if identity.group is not None:
        yield f"--user={user}:{identity.group}"
    elif user:
        yield f"--user={user}"
    yield from (f"--group-add={group}" for group in identity.groups)


def _may(flavour: Flavour, security: Security) -> Iterator[str]:
    if security.privileged:
        yield "--privileged"
    yield from (f"--cap-add={name}" for name in security.add_capabilities)
    yield from (f"--cap-drop={name}" for name in security.drop_capabilities)
    if security.no_new_privileges:
        yield "--security-opt=no-new-privileges"
    if security.read_only_root:
        yield from flavour.read_only


def _limits(spec: ContainerSpec) -> Iterator[str]:
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
    mark: str,
    *,
    stdin: bool,
    tty: bool,
    environment: Mapping[str, str],
) -> list[str]:
    """A further process in a container, found again on the host by its mark."""
    variables = {**({"TERM": "xterm"} if tty else {}), **environment, EXECUTION: mark}
    return [
        *("exec", *(["--interactive"] if stdin or tty else []), *(["--tty"] if tty else [])),
        *(f"--env={name}={value}" for name, value in variables.items()),
        *(container, *command),
    ]


def attach(container: str, *, stdin: bool) -> list[str]:
    return ["attach", *([] if stdin else ["--no-stdin"]), "--sig-proxy=false", "--detach-keys=", container]
