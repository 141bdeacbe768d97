"""Validation of containers: names, images, ports, environment, resources, mounts, probes and hooks."""

from collections.abc import Collection, Mapping
from typing import Any

from volcano.apiserver.schema.validation import field
from volcano.apiserver.schema.validation.field import Causes
from volcano.apiserver.schema.validation.resource_quantities import requirements
from volcano.apiserver.schema.validation.security_context import container_security_context
from volcano.kube.api.formats.names import (
    config_key,
    dns_label,
    dns_subdomain,
    env_name,
    http_header_name,
    port_name,
    port_number,
    qualified_name,
)
from volcano.kube.api.manifest import Manifest

PROTOCOLS = ("SCTP", "TCP", "UDP")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_PROPAGATION = ("Bidirectional", "HostToContainer", "None")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
ENV_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
FILE_FIELDS = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
RESOURCE_FIELDS = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage",
    "requests.memory",
)  # fmt: skip


def containers(spec: Mapping[str, Any], path: str, volumes: Mapping[str, Manifest]) -> Causes:
    """Validates the containers and init containers of a pod spec."""
    main = spec.get("containers") or []
    if not main:
        yield field.required(f"{path}.containers")
    host = bool(spec.get("hostNetwork"))
    names: set[str] = set()
    host_ports: set[str] = set()
    for index, container in enumerate(main):
        yield from _container(container, f"{path}.containers[{index}]", volumes, names, host=host)
        if container.get("ports"):
            yield from _host_ports(container, f"{path}.containers[{index}]", host_ports)
        if container.get("lifecycle"):
            grace = spec.get("terminationGracePeriodSeconds")
            yield from _sleep_actions(container, f"{path}.containers[{index}]", grace)
    for index, container in enumerate(spec.get("initContainers") or ()):
        where = f"{path}.initContainers[{index}]"
        yield from _container(container, where, volumes, names, host=host)
        yield from _init_only(container, where)


def _container(
    container: Manifest, path: str, volumes: Mapping[str, Manifest], names: set[str], *, host: bool
) -> Causes:
    name = container.get("name")
    yield from field.unique_name(f"{path}.name", name, names, dns_label)
    image = container.get("image")
    if not image:
        yield field.required(f"{path}.image")
    elif image.strip() != image:
        yield field.invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
    yield from field.one_of(f"{path}.imagePullPolicy", container.get("imagePullPolicy"), _PULL_POLICIES)
    policy = container.get("terminationMessagePolicy")
    if policy not in _MESSAGE_POLICIES:
        yield from field.one_of(f"{path}.terminationMessagePolicy", policy, _MESSAGE_POLICIES)
    if ports := container.get("ports"):
        yield from _ports(ports, f"{path}.ports", host=host)
    if container.get("env"):
        yield from _environment(container, path)
    if container.get("envFrom"):
        yield from _environment_sources(container, path)
    if container.get("volumeMounts") or container.get("volumeDevices"):
        yield from _mounts(container, path, volumes)
    if resources := container.get("resources"):
        yield from requirements(resources, f"{path}.resources")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if (probe := container.get(name)) is not None:
            yield from _probe(probe, f"{path}.{name}", name)
    if hooks := container.get("lifecycle"):
        for name in ("postStart", "preStop"):
            if hooks.get(name) is not None:
                yield from _handler(hooks[name], f"{path}.lifecycle.{name}")
    if context := container.get("securityContext"):
        yield from container_security_context(context, f"{path}.securityContext")


def _init_only(container: Manifest, path: str) -> Causes:
    policy = container.get("restartPolicy")
    yield from field.one_of(f"{path}.restartPolicy", policy, _RESTART_POLICIES)
    if policy == "Always":
        return
    for name in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(name) is not None:
            yield field.forbidden(
                f"{path}.{name}", "may not be set for init containers without restartPolicy=Always"
            )


def _ports(ports: list[Manifest], path: str, *, host: bool) -> Causes:
    names: set[str] = set()
    for index, port in enumerate(ports):
        where = f"{path}[{index}]"
        if name := port.get("name"):
            yield from field.each(f"{where}.name", name, port_name(name))
            yield from field.unique(f"{where}.name", name, names)
        number = port.get("containerPort") or 0
        if not number:
            yield field.required(f"{where}.containerPort")
        else:
            yield from field.each(f"{where}.containerPort", number, port_number(number))
        if host_port := port.get("hostPort"):
            yield from field.each(f"{where}.hostPort", host_port, port_number(host_port))
            if host and host_port != number:
                yield field.invalid(
                    f"{where}.hostPort", host_port, "must match `containerPort` when `hostNetwork` is true"
                )
        yield from field.one_of(f"{where}.protocol", port.get("protocol"), PROTOCOLS, needed=True)


def _host_ports(container: Manifest, path: str, seen: set[str]) -> Causes:
    for where, port in field.items(container, "ports", path):
        if number := port.get("hostPort"):
            text = f"{port.get('protocol')}/{port.get('hostIP') or ''}/{number}"
            yield from field.unique(f"{where}.hostPort", text, seen)


def _environment(container: Manifest, path: str) -> Causes:
    for index, variable in enumerate(container["env"]):
        name, source = variable.get("name"), variable.get("valueFrom")
        if not name:
            yield field.required(f"{path}.env[{index}].name")
        elif errors := env_name(name):
            yield from field.each(f"{path}.env[{index}].name", name, errors)
        if source is not None:
            yield from _value_source(source, variable, f"{path}.env[{index}].valueFrom")


def _value_source(source: Manifest, variable: Manifest, path: str) -> Causes:
    given = [name for name in _SOURCES if source.get(name) is not None]
    if "fieldRef" in given:
        yield from field_reference(source["fieldRef"], f"{path}.fieldRef", ENV_FIELDS)
    if "resourceFieldRef" in given:
        yield from resource_reference(source["resourceFieldRef"], f"{path}.resourceFieldRef")
    for name in ("configMapKeyRef", "secretKeyRef"):
        if name in given:
            reference = source[name]
            target, key = reference.get("name") or "", reference.get("key") or ""
            yield from field.each(f"{path}.{name}.name", target, dns_subdomain(target))
            if not key:
                yield field.required(f"{path}.{name}.key")
            else:
                yield from field.each(f"{path}.{name}.key", key, config_key(key))
    if not given:
        listed = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        yield field.invalid(path, "", f"must specify one of: {listed}")
    elif variable.get("value"):
        yield field.invalid(path, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        yield field.invalid(path, "", "may not have more than one field specified at a time")


def field_reference(reference: Manifest, path: str, allowed: Collection[str]) -> Causes:
    """Validates a fieldRef."""
    target = reference.get("fieldPath") or ""
    if not target:
        yield field.required(f"{path}.fieldPath")
        return
    base, bracket, key = target.partition("['")
    if bracket and base in ("metadata.labels", "metadata.annotations") and key.endswith("']"):
        yield from field.each(f"{path}.fieldPath", target, qualified_name(key[:-2].lower()))
    elif target not in ENV_FIELDS and target not in FILE_FIELDS:
        yield field.invalid(
            f"{path}.fieldPath", target, f"error converting fieldPath: field label not supported: {target}"
        )
    elif target not in allowed:
        yield field.unsupported(f"{path}.fieldPath", target, allowed)


def resource_reference(reference: Manifest, path: str) -> Causes:
    """Validates a resourceFieldRef."""
    target = reference.get("resource") or ""
    if not target:
        yield field.required(f"{path}.resource")
    elif target not in RESOURCE_FIELDS and not target.startswith(
        ("limits.hugepages-", "requests.hugepages-")
    ):
        yield field.unsupported(f"{path}.resource", target, RESOURCE_FIELDS)


def _environment_sources(container: Manifest, path: str) -> Causes:
    for where, source in field.items(container, "envFrom", path):
        given = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        if prefix := source.get("prefix"):
            yield from field.each(f"{where}.prefix", prefix, env_name(prefix))
        for name in given:
            target = source[name].get("name")
            if not target:
                yield field.required(f"{where}.{name}.name")
            else:
                yield from field.each(f"{where}.{name}.name", target, dns_subdomain(target))
        if not given:
            yield field.invalid(f"{path}.envFrom", "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            yield field.invalid(f"{path}.envFrom", "", "may not have more than one field specified at a time")


def _mounts(container: Manifest, path: str, volumes: Mapping[str, Manifest]) -> Causes:
    mount_paths: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        where = f"{path}.volumeMounts[{index}]"
        name, mount_path = mount.get("name") or "", mount.get("mountPath")
        if not name:
            yield field.required(f"{where}.name")
        if name not in volumes:
            yield field.not_found(f"{where}.name", name)
        if not mount_path:
            yield field.required(f"{where}.mountPath")
        elif mount_path in mount_paths:
            yield field.invalid(f"{where}.mountPath", mount_path, "must be unique")
        else:
            mount_paths.add(mount_path)
        for part in ("subPath", "subPathExpr"):
            if value := mount.get(part):
                yield from descending_path(value, f"{path}.volumeMounts.{part}")
        yield from field.one_of(
            f"{path}.volumeMounts.mountPropagation", mount.get("mountPropagation"), _PROPAGATION
        )
    for index, device in enumerate(container.get("volumeDevices") or ()):
        yield from _device(device, f"{path}.volumeDevices[{index}]", volumes)


def _device(device: Manifest, path: str, volumes: Mapping[str, Manifest]) -> Causes:
    name = device.get("name") or ""
    if not name:
        yield field.required(f"{path}.name")
    if name not in volumes:
        yield field.not_found(f"{path}.name", name)
    elif not ({"persistentVolumeClaim", "ephemeral"} & volumes[name].keys()):
        yield field.invalid(
            f"{path}.name",
            name,
            "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
        )
    if not device.get("devicePath"):
        yield field.required(f"{path}.devicePath")


def descending_path(value: str, path: str) -> Causes:
    """Validates a relative path without `..`."""
    if value.startswith("/"):
        yield field.invalid(path, value, "must be a relative path")
    yield from no_parent_references(value, path)


def no_parent_references(value: str, path: str) -> Causes:
    """Rejects a path that contains `..`."""
    if ".." in value.split("/"):
        yield field.invalid(path, value, "must not contain '..'")


def _probe(probe: Manifest, path: str, name: str) -> Causes:
    yield from _handler(probe, path)
    for number in (
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ):
        yield from field.not_negative(f"{path}.{number}", probe.get(number))
    grace = probe.get("terminationGracePeriodSeconds")
    if name == "readinessProbe":
        if grace is not None:
            yield field.invalid(
                f"{path}.terminationGracePeriodSeconds", grace, "must not be set for readinessProbes"
            )
        return
    if probe.get("successThreshold", 1) not in (0, 1):
        yield field.invalid(f"{path}.successThreshold", probe["successThreshold"], "must be 1")
    if grace is not None and grace <= 0:
        yield field.invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0")


def _handler(handler: Manifest, path: str) -> Causes:
    """Validates the handler of a probe or hook: exactly one type."""
    given = [name for name in _HANDLERS if handler.get(name) is not None]
    for name in given[1:]:
        yield field.forbidden(f"{path}.{name}", "may not specify more than 1 handler type")
    if not given:
        yield field.required(path, "must specify a handler type")
        return
    name = given[0]
    action, where = handler[name], f"{path}.{name}"
    if name == "exec" and not action.get("command"):
        yield field.required(f"{where}.command")
    if name in ("httpGet", "tcpSocket", "grpc"):
        yield from port_or_name(action.get("port"), f"{where}.port")
    if name == "httpGet":
        if not action.get("path"):
            yield field.required(f"{where}.path")
        yield from field.one_of(f"{where}.scheme", action.get("scheme"), ("HTTP", "HTTPS"), needed=True)
        for place, header in field.items(action, "httpHeaders", where):
            title = header.get("name") or ""
            yield from field.each(f"{place}.name", title, http_header_name(title))


def port_or_name(port: Any, path: str) -> Causes:
    """Validates a port given by number or by name."""
    if isinstance(port, str):
        yield from field.each(path, port, port_name(port))
    else:
        yield from field.each(path, port or 0, port_number(port or 0))


def _sleep_actions(container: Mapping[str, Any], path: str, grace: int | None) -> Causes:
    """Validates the sleep actions of hooks: within the termination grace period."""
    for name in ("postStart", "preStop"):
        action = ((container.get("lifecycle") or {}).get(name) or {}).get("sleep")
        if action is None or grace is None:
            continue
        seconds = action.get("seconds") or 0
        if not 0 <= seconds <= grace:
            detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            yield field.invalid(f"{path}.lifecycle.{name}.sleep", seconds, detail)
