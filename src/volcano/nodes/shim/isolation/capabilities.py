"""Capabilities of a container: the default set of container engines, changed by its security context."""

from collections.abc import Iterable

from volcano.nodes.shim.isolation import syscalls
from volcano.nodes.shim.specs import Failure, Security

# In the kernel's order: the number of a capability is its index.
NAMES = (
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
    "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK",
    "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN",
    "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE",
    "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND",
    "AUDIT_READ", "PERFMON", "BPF", "CHECKPOINT_RESTORE",
)  # fmt: skip

DEFAULT = frozenset((
    "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP", "NET_BIND_SERVICE",
    "NET_RAW", "SYS_CHROOT", "MKNOD", "AUDIT_WRITE", "SETFCAP",
))  # fmt: skip


def effective(security: Security) -> frozenset[str]:
    """Returns the capabilities of a container; added ones take precedence over dropped ones."""
    everything = frozenset(NAMES)
    if security.privileged:
        return everything
    added, dropped = _named(security.add_capabilities), _named(security.drop_capabilities)
    if "ALL" in added:
        return everything - dropped
    return (frozenset() if "ALL" in dropped else DEFAULT - dropped) | added


def mask(names: Iterable[str]) -> int:
    return sum(1 << NAMES.index(name) for name in names)


def permitted() -> int:
    """Mask of this process's permitted capabilities."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        return next(int(line.split()[1], 16) for line in status if line.startswith("CapPrm:"))


def limit_bounding_set(kept: int) -> None:
    """Drops all capabilities but `kept` from the bounding set, for every program executed from here on."""
    for number in range(len(NAMES)):
        if not kept >> number & 1:
            syscalls.prctl(syscalls.PR_CAPBSET_DROP, number)


def _named(given: Iterable[str]) -> frozenset[str]:
    names = frozenset(name.upper().removeprefix("CAP_") for name in given)
    unknown = sorted(names - set(NAMES) - {"ALL"})
    if unknown:
        raise Failure("CreateContainerError", f"unknown capability {unknown[0]!r} in the security context")
    return names
