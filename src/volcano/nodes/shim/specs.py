"""What is to be run, and what became of it: plain values that the agent and the shim hand each other.

The shim imports the standard library alone, so that it is small and starts at once; this module keeps to that.
"""

import enum
from dataclasses import dataclass, field

Address = str  # an IPv4 address; empty when the pod has none of its own


class Mode(enum.StrEnum):
    """The runtimes that a shim can be."""

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
    size: int = 0  # bytes, of a memory-backed volume; 0 is no limit of its own


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """What the containers of one pod share."""

    uid: str
    namespace: str
    name: str
    node: str
    directory: str  # the pod's own; the shim may use `directory/sandbox` for itself
    hostname: str
    hosts: str = ""  # the text of /etc/hosts; "{address}" in it stands for the pod's address
    resolv_conf: str = ""  # the text of /etc/resolv.conf
    host_network: bool = False
    host_pid: bool = False
    host_ipc: bool = False
    share_pid: bool = False
    host_address: Address = ""
    wanted_address: Address = ""  # the address it had before, if it had one
    cpu_request: float = 0.0  # of the whole pod, in cores
    cpu_limit: float = 0.0  # 0 is no limit
    memory_limit: int = 0
    pids_limit: int = 0
    # Its own, fully qualified, for runtimes whose pods have no name server to ask.
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom a process runs as; None where the runtime chooses."""

    user: int | None = None
    group: int | None = None
    groups: tuple[int, ...] = ()
    not_root: bool = False  # to be refused if its image would make it root; others were checked before


@dataclass(frozen=True, slots=True)
class Security:
    """What a container may do beyond or short of the usual."""

    privileged: bool = False
    read_only_root: bool = False
    no_new_privileges: bool = False
    add_capabilities: tuple[str, ...] = ()  # as Kubernetes writes them: NET_ADMIN, ALL
    drop_capabilities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """One start of one container; `attempt` counts its starts from 0."""

    pod: str  # uid
    name: str
    attempt: int
    image: str
    command: tuple[str, ...]  # everything expanded; empty only where an image says what to run
    environment: dict[str, str] = field(default_factory=dict)
    working_directory: str = ""
    mounts: tuple[Mount, ...] = ()
    identity: Identity = Identity()
    security: Security = Security()
    cpu_request: float = 0.0  # cores
    cpu_limit: float = 0.0  # 0 is no limit
    memory_limit: int = 0  # bytes; 0 is no limit
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    log_path: str = ""  # lines `<RFC 3339 nano time> stdout|stderr F|P <text>`; rotated to log_path.1, .2 ...
    # For runtimes with images:
    own_entrypoint: bool = True  # False: `command` is what the image's own entrypoint is given
    pull_policy: str = ""  # Always, IfNotPresent, Never; empty: by the image's tag


@dataclass(frozen=True, slots=True)
class ContainerState:
    """A container as it is: running, or over. Times are wall time."""

    pod: str
    name: str
    attempt: int
    started: float
    pid: int = 0  # in this host's numbering; 0 when it is over
    finished: float = 0.0  # 0 while it runs
    exit_code: int = 0  # 128 + the signal's number when a signal ended it
    reason: str = ""  # Completed, Error, OOMKilled
    message: str = ""

    @property
    def running(self) -> bool:
        return self.finished == 0.0


@dataclass(frozen=True, slots=True)
class SandboxState:
    """A sandbox that exists."""

    uid: str
    namespace: str
    name: str
    node: str
    directory: str
    address: Address


@dataclass(frozen=True, slots=True)
class Usage:
    """What a container has used so far."""

    pod: str
    name: str
    cpu_seconds: float
    memory_bytes: int  # its working set now


class Failure(Exception):
    """Something could not be started; `reason` is the word a kubelet would use for it.

    StartError: the program is missing or may not be executed. RunContainerError, CreateContainerError,
    CreateContainerConfigError, FailedCreatePodSandBox: what their names say. ErrImagePull, ImagePullBackOff,
    ErrImageNeverPull: there is no image, for now or for good.
    """

    def __init__(self, reason: str, message: str, *, exit_code: int = 128) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.exit_code = exit_code  # what a shell would give: 127 no such program, 126 it may not be executed
