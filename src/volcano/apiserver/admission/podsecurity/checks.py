"""The checks of the Pod Security Standards, by level and policy version."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from volcano.apiserver.authz.pod_references import containers_of

Spec = Mapping[str, Any]
BASELINE, RESTRICTED = "baseline", "restricted"
NEWEST = 35  # the last minor version of Kubernetes in which a check changed


class Violation(NamedTuple):
    """What a pod violates, in general and in detail."""

    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


# The violation of one check by a pod with these metadata and this spec, if any.
CheckFunction = Callable[[Mapping[str, Any], Spec], Violation | None]


@dataclass(frozen=True, slots=True)
class Check:
    """A check with its versions, oldest first: the minor version from which each applies."""

    id: str
    level: str
    versions: tuple[tuple[int, CheckFunction], ...]
    overrides: str = ""  # the baseline check that it includes

    def at(self, minor: int) -> CheckFunction | None:
        found = [function for since, function in self.versions if since <= minor]
        return found[-1] if found else None


def checks_of(level: str, minor: int) -> list[CheckFunction]:
    """The checks of a level in a policy version: those of baseline first, each sorted by id."""
    chosen = {check.id: check for check in CHECKS if check.at(minor) is not None}
    overridden = {check.overrides for check in chosen.values()}
    baseline = [check for check in chosen.values() if check.level == BASELINE]
    if level == BASELINE:
        checks = sorted(baseline, key=lambda check: check.id)
    else:
        kept = sorted((each for each in baseline if each.id not in overridden), key=lambda check: check.id)
        stricter = (check for check in chosen.values() if check.level == RESTRICTED)
        checks = [*kept, *sorted(stricter, key=lambda check: check.id)]
    return [function for check in checks if (function := check.at(minor)) is not None]


def quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _plural(word: str, count: int, plural: str = "") -> str:
    return word if count == 1 else plural or f"{word}s"


def _named(word: str, names: list[str]) -> str:
    return f"{_plural(word, len(names))} {quoted(names)}"


def _context(holder: Mapping[str, Any]) -> Mapping[str, Any]:
    return holder.get("securityContext") or {}


def _setters(spec: Spec, is_bad: Callable[[Mapping[str, Any]], bool]) -> list[str]:
    """Those whose security context is bad: `pod`, `containers "a", "b"`."""
    names = [container.get("name", "") for container in containers_of(spec) if is_bad(_context(container))]
    pod = ["pod"] if is_bad(_context(spec)) else []
    return [*pod, _named("container", names)] if names else pod


def _bad_containers(spec: Spec, is_bad: Callable[[Mapping[str, Any]], bool]) -> list[str]:
    return [container.get("name", "") for container in containers_of(spec) if is_bad(container)]


def _is_windows(spec: Spec) -> bool:
    return (spec.get("os") or {}).get("name") == "windows"


def _has_own_users(spec: Spec) -> bool:
    return spec.get("hostUsers") is False


# Baseline


def _apparmor(metadata: Mapping[str, Any], spec: Spec) -> Violation | None:
    allowed = ("RuntimeDefault", "Localhost")
    values: set[str] = set()

    def is_bad(context: Mapping[str, Any]) -> bool:
        profile = context.get("appArmorProfile")
        if profile is None or profile.get("type") in allowed:
            return False
        values.add(str(profile.get("type") or ""))
        return True

    setters = _setters(spec, is_bad)
    prefix = "container.apparmor.security.beta.kubernetes.io/"
    annotations = sorted(
        f'{key}="{value}"'
        for key, value in (metadata.get("annotations") or {}).items()
        if key.startswith(prefix)
        and value not in ("", "runtime/default")
        and not value.startswith("localhost/")
    )
    if annotations:
        setters.append(_plural("annotation", len(annotations)))
    if not setters:
        return None
    found = [*sorted(values), *annotations]
    reason = _plural("forbidden AppArmor profile", len(found))
    return Violation(reason, f"{' and '.join(setters)} must not set AppArmor profile type to {quoted(found)}")


_DEFAULT_CAPABILITIES = frozenset(
    (
        "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
        "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
    )
)  # fmt: skip


def _added(container: Mapping[str, Any], allowed: frozenset[str]) -> set[str]:
    return set((_context(container).get("capabilities") or {}).get("add") or ()) - allowed


def _capabilities(metadata: Mapping[str, Any], spec: Spec) -> Violation | None:
    names = _bad_containers(spec, lambda each: bool(_added(each, _DEFAULT_CAPABILITIES)))
    if not names:
        return None
    added = sorted(set().union(*(_added(each, _DEFAULT_CAPABILITIES) for each in containers_of(spec))))
    where = "in securityContext.capabilities.add"
    return Violation(
        "non-default capabilities", f"{_named('container', names)} must not include {quoted(added)} {where}"
    )


def _host_namespaces(metadata: Mapping[str, Any], spec: Spec) -> Violation | None:
    shared = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    return Violation("host namespaces", ", ".join(shared)) if shared else None


def _host_paths(metadata: Mapping[str, Any], spec: Spec) -> Violation | None:
    names = [volume.get("name", "") for volume in spec.get("volumes") or () if volume.get("hostPath")]
    return Violation("hostPath volumes", _named("volume", names)) if names else None


def _ports_of(container: Mapping[str, Any]) -> set[str]:
    return {str(port["hostPort"]) for port in container.get("ports") or () if port.get("hostPort")}


def _host_ports(metadata: Mapping[str, Any], spec: Spec) -> Violation | None:
    names = _bad_containers(spec, lambda container: bool(_ports_of(container)))
    if not names:
        return None
    ports = sorted(set().union(*map(_ports_of, containers_of(spec))))
    uses = f"{_plural('uses', len(names), 'use')} {_plural('hostPort', len(ports))}"
    return Violation("hostPort", f"{_named('container', names)} {uses} {', '.join(ports)}")


def _hosts_of(container: Mapping[str, Any]) -> Iterator[str]:
    lifecycle = container.get("lifecycle") or {}
    handlers = [container.get(name) for name in ("livenessProbe", "readinessProbe", "startupProbe")]
    for handler in (*handlers, lifecycle.get("postStart"), lifecycle.get("preStop")):
        for kind in ("httpGet", "tcpSocket"):
            host = ((handler or {}).get(kind) or {}).get("host")
            if host:
                yield str(host)


def _probe_hosts(metadata: Mapping[str, Any], spec: Spec) -> Violation | None:
    names = sorted(set(_bad_containers(spec, lambda container: any(_hosts_of(container)))))
    if not names:
        return None
    hosts = sorted({host for container in containers_of(spec) for host in _hosts_of(container)})
    uses = f"{_plural('uses', len(names), 'use')} {_plural('probe or lifecycle host', len(hosts))}"
    return Violation("probe or lifecycle host", f"{_named('container', names)} {uses} {quoted(hosts)}")


def _privileged(metadata: Mapping[str, Any], spec: Spec) -> Violation | None:
    names = _bad_containers(spec, lambda container: bool(_context(container).get("privileged")))
    if not names:
        return None
    return Violation(
        "privileged", f"{_named('container', names)} must not set securityContext.privileged=true"
    )


def _proc_mount(metadata: Mapping[str, Any], spec: Spec) -> Violation | None:
    def kind_of(container: Mapping[str, Any]) -> str:
        return str(_context(container).get("procMount") or "Default")

    names = _bad_containers(spec, lambda container: kind_of(container) != "Default")
    if not names:
        return None
    kinds = sorted({kind_of(container) for container in containers_of(spec)} - {"Default"})
    where = "securityContext.procMount"
    return Violation("procMount", f"{_named('container', names)} must not set {where} to {quoted(kinds)}")


def _proc_mount_with_users(metadata: Mapping[str, Any], spec: Spec) -> Violation | None:
    return None if _has_own_users(spec) else _proc_mount(metadata, spec)


def _selinux(*allowed: str) -> CheckFunction:
    def check(metadata: Mapping[str, Any], spec: Spec) -> Violation | None:
        types: set[str] = set()
        fields: set[str] = set()

        def is_bad(context: Mapping[str, Any]) -> bool:
            options = context.get("seLinuxOptions") or {}
            bad_type = (options.get("type") or "") not in ("", *allowed)
            if bad_type:
                types.add(options["type"])
            set_fields = {name for name in ("user", "role") if options.get(name)}
            fields.update(set_fields)
            return bad_type or bool(set_fields)

        setters = _setters(spec, is_bad)
        if not setters:
            return None
        found = [_named("type", sorted(types))] if types else []
        found += [f"{name} may not be set" for name in ("user", "role") if name in fields]
        where = "securityContext.seLinuxOptions"
        return Violation(
            "seLinuxOptions", f"{' and '.join(setters)} set forbidden {where}: {'; '.join(found)}"
        )

    return check


_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_SECCOMP_TYPES = ("RuntimeDefault", "Localhost")


def _seccomp_annotations(metadata: Mapping[str, Any], spec: Spec) -> Violation | None:
    annotations = metadata.get("annotations") or {}
    keys = [_SECCOMP_POD, *(f"{_SECCOMP_CONTAINER}{each.get('name', '')}" for each in containers_of(spec))]
    forbidden = sorted(
        {
            f'{key}="{annotations[key]}"'
            for key in keys
            if key in annotations
            and annotations[key] not in ("runtime/default", "docker/default")
            and not annotations[key].startswith("localhost/")
        }
    )
    if not forbidden:
        return None
    return Violation(
        "seccompProfile", f"forbidden {_plural('annotation', len(forbidden))} {', '.join(forbidden)}"
    )


def _seccomp(metadata: Mapping[str, Any], spec: Spec) -> Violation | None:
    values: set[str] = set()

    def is_bad(context: Mapping[str, Any]) -> bool:
        profile = context.get("seccompProfile")
        if profile is None or profile.get("type") in _SECCOMP_TYPES:
            return False
        values.add(str(profile.get("type") or ""))
        return True

    setters = _setters(spec, is_bad)
    if not setters:
        return None
    where = "securityContext.seccompProfile.type"
    return Violation(
        "seccompProfile", f"{' and '.join(setters)} must not set {where} to {quoted(sorted(values))}"
    )


_SYSCTLS_0 = frozenset(
    (
        "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range", "net.ipv4.ip_unprivileged_port_start",
    )
)  # fmt: skip
_SYSCTLS_27 = _SYSCTLS_0 | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_29 = _SYSCTLS_27 | {
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}
_SYSCTLS_32 = _SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}


def _sysctls(allowed: frozenset[str]) -> CheckFunction:
    def check(metadata: Mapping[str, Any], spec: Spec) -> Violation | None:
        names = [each.get("name", "") for each in _context(spec).get("sysctls") or ()]
        forbidden = [name for name in names if name not in allowed]
        return Violation("forbidden sysctls", ", ".join(forbidden)) if forbidden else None

    return check


def _windows_host_process(metadata: Mapping[str, Any], spec: Spec) -> Violation | None:
    setters = _setters(spec, lambda context: bool((context.get("windowsOptions") or {}).get("hostProcess")))
    if not setters:
        return None
    where = "securityContext.windowsOptions.hostProcess"
    return Violation("hostProcess", f"{' and '.join(setters)} must not set {where}=true")


# Restricted


def _privilege_escalation(metadata: Mapping[str, Any], spec: Spec) -> Violation | None:
    names = _bad_containers(spec, lambda each: _context(each).get("allowPrivilegeEscalation") is not False)
    if not names:
        return None
    where = "securityContext.allowPrivilegeEscalation"
    return Violation(
        "allowPrivilegeEscalation != false", f"{_named('container', names)} must set {where}=false"
    )


def _restricted_capabilities(metadata: Mapping[str, Any], spec: Spec) -> Violation | None:
    allowed = frozenset(("NET_BIND_SERVICE",))
    keeping = _bad_containers(
        spec, lambda each: "ALL" not in ((_context(each).get("capabilities") or {}).get("drop") or ())
    )
    adding = _bad_containers(spec, lambda each: bool(_added(each, allowed)))
    details = []
    if keeping:
        details.append(f'{_named("container", keeping)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        added = sorted(set().union(*(_added(each, allowed) for each in containers_of(spec))))
        where = "in securityContext.capabilities.add"
        details.append(f"{_named('container', adding)} must not include {quoted(added)} {where}")
    return Violation("unrestricted capabilities", "; ".join(details)) if details else None


_RESTRICTED_VOLUMES = (
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected",
    "secret",
)  # fmt: skip
_OTHER_VOLUMES = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "nfs", "iscsi", "glusterfs", "rbd",
    "flexVolume", "cinder", "cephfs", "flocker", "fc", "azureFile", "vsphereVolume", "quobyte", "azureDisk",
    "photonPersistentDisk", "portworxVolume", "scaleIO", "storageos",
)  # fmt: skip


def _volume_types(metadata: Mapping[str, Any], spec: Spec) -> Violation | None:
    def is_allowed(volume: Mapping[str, Any]) -> bool:
        return any(volume.get(kind) is not None for kind in _RESTRICTED_VOLUMES)

    bad = [volume for volume in spec.get("volumes") or () if not is_allowed(volume)]
    if not bad:
        return None
    kinds = {
        next((kind for kind in _OTHER_VOLUMES if volume.get(kind) is not None), "unknown") for volume in bad
    }
    uses = f"{_plural('uses', len(bad), 'use')} {_plural('restricted volume type', len(kinds))}"
    names = _named("volume", [volume.get("name", "") for volume in bad])
    return Violation("restricted volume types", f"{names} {uses} {quoted(sorted(kinds))}")


def _run_as_non_root(metadata: Mapping[str, Any], spec: Spec) -> Violation | None:
    reason, where = "runAsNonRoot != true", "securityContext.runAsNonRoot"
    setters = _setters(spec, lambda context: context.get("runAsNonRoot") is False)
    if setters:
        return Violation(reason, f"{' and '.join(setters)} must not set {where}=false")
    if _context(spec).get("runAsNonRoot"):
        return None
    names = _bad_containers(spec, lambda container: _context(container).get("runAsNonRoot") is None)
    return Violation(reason, f"pod or {_named('container', names)} must set {where}=true") if names else None


def _run_as_user(metadata: Mapping[str, Any], spec: Spec) -> Violation | None:
    setters = _setters(spec, lambda context: context.get("runAsUser") == 0)
    return Violation("runAsUser=0", f"{' and '.join(setters)} must not set runAsUser=0") if setters else None


def _restricted_seccomp(metadata: Mapping[str, Any], spec: Spec) -> Violation | None:
    explicit = _seccomp(metadata, spec)
    if explicit is not None or _context(spec).get("seccompProfile") is not None:
        return explicit
    names = _bad_containers(spec, lambda container: _context(container).get("seccompProfile") is None)
    if not names:
        return None
    text = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return Violation("seccompProfile", f"pod or {_named('container', names)} {text}")


def _unless(exempt: Callable[[Spec], bool], check: CheckFunction) -> CheckFunction:
    return lambda metadata, spec: None if exempt(spec) else check(metadata, spec)


CHECKS = (
    Check("appArmorProfile", BASELINE, ((0, _apparmor),)),
    Check("capabilities_baseline", BASELINE, ((0, _capabilities),)),
    Check("hostNamespaces", BASELINE, ((0, _host_namespaces),)),
    Check("hostPathVolumes", BASELINE, ((0, _host_paths),)),
    Check("hostPorts", BASELINE, ((0, _host_ports),)),
    Check("hostProbesAndHostLifecycle", BASELINE, ((34, _probe_hosts),)),
    Check("privileged", BASELINE, ((0, _privileged),)),
    Check("procMount", BASELINE, ((0, _proc_mount), (35, _proc_mount_with_users))),
    Check(
        "seLinuxOptions",
        BASELINE,
        (
            (0, _selinux("container_t", "container_init_t", "container_kvm_t")),
            (31, _selinux("container_t", "container_init_t", "container_kvm_t", "container_engine_t")),
        ),
    ),
    Check("seccompProfile_baseline", BASELINE, ((0, _seccomp_annotations), (19, _seccomp))),
    Check(
        "sysctls",
        BASELINE,
        (
            (0, _sysctls(_SYSCTLS_0)),
            (27, _sysctls(_SYSCTLS_27)),
            (29, _sysctls(_SYSCTLS_29)),
            (32, _sysctls(_SYSCTLS_32)),
        ),
    ),
    Check("windowsHostProcess", BASELINE, ((0, _windows_host_process),)),
    Check(
        "allowPrivilegeEscalation",
        RESTRICTED,
        ((8, _privilege_escalation), (25, _unless(_is_windows, _privilege_escalation))),
    ),
    Check(
        "capabilities_restricted",
        RESTRICTED,
        ((22, _restricted_capabilities), (25, _unless(_is_windows, _restricted_capabilities))),
        overrides="capabilities_baseline",
    ),
    Check("procMount_restricted", RESTRICTED, ((35, _proc_mount),), overrides="procMount"),
    Check("restrictedVolumes", RESTRICTED, ((0, _volume_types),), overrides="hostPathVolumes"),
    Check(
        "runAsNonRoot", RESTRICTED, ((0, _run_as_non_root), (35, _unless(_has_own_users, _run_as_non_root)))
    ),
    Check("runAsUser", RESTRICTED, ((23, _run_as_user), (35, _unless(_has_own_users, _run_as_user)))),
    Check(
        "seccompProfile_restricted",
        RESTRICTED,
        ((19, _restricted_seccomp), (25, _unless(_is_windows, _restricted_seccomp))),
        overrides="seccompProfile_baseline",
    ),
)
