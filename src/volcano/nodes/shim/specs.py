"""Specs and states of sandboxes and containers, as the kubelet and the shim exchange them.

The shim imports only the standard library, so that it is small and starts fast; so does this module.
"""

import enum
from dataclasses import dataclass, field

Address = str  # an IPv4 address; empty when the pod has none of its own


# Other networks that pods reach: those that this host reaches, or none.
POD_NETWORKS = NAT, NO_NETWORK = "nat", "none"


class Mode(enum.StrEnum):
    """Isolation modes of a shim."""

    NETNS = "netns"  # namespaces, as root
    USERNS = "userns"  # the same inside a user namespace
    PLAIN = "plain"  # processes of this host


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or directory of this host that a container sees at `target`."""

    source: str
    target: str
    read_only: bool = False
    # A memory-backed volume is a tmpfs that the shim mounts at `source` when the first container needs it.
    memory: bool = False
    size: int = 0  # bytes, of a memory-backed volume; 0 is no limit
    # A directory that `source` must neither contain nor be part of, once its links are resolved.
    apart_from: str = ""


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """The part of a pod that its containers share."""

    uid: str
    namespace: str
    name: str
    node: str
    directory: str  # of the pod; the runtime may use `directory/sandbox`
    hostname: str
    hosts: str = ""  # the text of /etc/hosts; "{address}" in it stands for the pod's address
    resolv_conf: str = ""  # the text of /etc/resolv.conf
    host_network: bool = False
    host_pid: bool = False
    host_ipc: bool = False
    share_pid: bool = False
    host_address: Address = ""
    wanted_address: Address = ""  # the address of an earlier sandbox of the pod, if any
    cpu_request: float = 0.0  # of the whole pod, in cores
    cpu_limit: float = 0.0  # 0 is no limit
    memory_limit: int = 0
    pids_limit: int = 0
    # Fully qualified names of the pod, for runtimes whose pods have no name server.
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Identity:
    """User and groups of a process; None where the runtime chooses."""

    user: int | None = None
    group: int | None = None
    groups: tuple[int, ...] = ()
    not_root: bool = False  # reject an image that runs as root; explicit users are checked by the kubelet


@dataclass(frozen=True, slots=True)
class Security:
    """Security options of a container."""

    privileged: bool = False
    read_only_root: bool = False
    no_new_privileges: bool = False
    add_capabilities: tuple[str, ...] = ()  # as Kubernetes writes them: NET_ADMIN, ALL
    drop_capabilities: tuple[str, ...] = ()
    default_seccomp: bool = False  # the profile RuntimeDefault
    no_seccomp: bool = False  # the profile Unconfined, also where the runtime applies one by default


@dataclass(frozen=True, slots=True)
class GpuAccess:
    """GPUs of this host that a container may use; with the default, none."""

    files: tuple[str, ...] = ()  # device files, such as /dev/nvidia0 and /dev/nvidiactl
    bus_ids: tuple[str, ...] = ()  # of the cards, as in /proc/driver/nvidia/gpus
    names: tuple[str, ...] = ()  # UUIDs of cards or MIG instances, for container engines


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """One start of one container; `attempt` counts its starts from 0."""

    pod: str  # uid
    name: str
    attempt: int
    image: str
    command: tuple[str, ...]  # with variables expanded; empty only where the image defines the command
    environment: dict[str, str] = field(default_factory=dict)
    working_directory: str = ""
    mounts: tuple[Mount, ...] = ()
    identity: Identity = Identity()
    security: Security = Security()
    cpu_request: float = 0.0  # cores
    cpu_limit: float = 0.0  # 0 is no limit
    memory_limit: int = 0  # bytes; 0 is no limit
    gpus: GpuAccess = GpuAccess()
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    log_path: str = ""  # lines `<RFC 3339 nano time> stdout|stderr F|P <text>`; rotated to log_path.1, .2 ...
    # For runtimes that use images:
    own_entrypoint: bool = True  # False: `command` is passed to the entrypoint of the image
    pull_policy: str = ""  # Always, IfNotPresent, Never; empty: by the image's tag
    cpus: tuple[int, ...] = ()  # CPUs that the container is limited to; empty for all


@dataclass(frozen=True, slots=True)
class ContainerState:
    """State of a container, running or exited. Times are wall time."""

    pod: str
    name: str
    attempt: int
    started: float
    pid: int = 0  # on this host; 0 when it has exited
    finished: float = 0.0  # 0 while it runs
    exit_code: int = 0  # 128 + the signal's number when a signal ended it
    reason: str = ""  # Completed, Error, OOMKilled
    message: str = ""

    @property
    def running(self) -> bool:
        return self.finished == 0.0


@dataclass(frozen=True, slots=True)
class SandboxState:
    """State of an existing sandbox."""

    uid: str
    namespace: str
    name: str
    node: str
    directory: str
    address: Address


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU and memory usage of a container."""

    pod: str
    name: str
    cpu_seconds: float
    memory_bytes: int  # working set


class Failure(Exception):
    """An error of the runtime; `reason` is the reason that a kubelet reports.

    StartError: the program is missing or not executable. RunContainerError, CreateContainerError,
    CreateContainerConfigError, FailedCreatePodSandBox: as in the kubelet. ErrImagePull, ImagePullBackOff,
    ErrImageNeverPull: the image is not available.
    """

    def __init__(self, reason: str, message: str, *, exit_code: int = 128) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.exit_code = exit_code  # as a shell returns it: 127 program not found, 126 not executable
