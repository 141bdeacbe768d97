"""Validation of Ingresses and IngressClasses."""

from typing import Any

from volcano.apiserver.schema.validation import field
from volcano.apiserver.schema.validation.field import Causes
from volcano.apiserver.schema.validation.metadata import domain_prefixed_path
from volcano.kube.api.formats.names import (
    dns_label,
    dns_subdomain,
    ip_address,
    path_segment,
    port_name,
    port_number,
    wildcard_subdomain,
)
from volcano.kube.api.manifest import Manifest, annotations_of

CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_SCOPES = ("Cluster", "Namespace")
_INVALID_SEQUENCES = ("//", "/./", "/../", "%2f", "%2F")
_INVALID_SUFFIXES = ("/..", "/.")
_LONGEST_CONTROLLER = 250


def ingress(manifest: Manifest) -> Causes:
    """Validates an Ingress."""
    spec = manifest.get("spec") or {}
    if not spec.get("rules") and spec.get("defaultBackend") is None:
        yield field.invalid("spec", None, "either `defaultBackend` or `rules` must be specified")
    if (backend := spec.get("defaultBackend")) is not None:
        yield from _backend(backend, "spec.defaultBackend")
    for path, rule in field.items(spec, "rules", "spec"):
        yield from _rule(rule, path)
    for path, tls in field.items(spec, "tls", "spec"):
        for index, host in enumerate(tls.get("hosts") or ()):
            yield from _host(host, f"{path}.hosts[{index}]")
        if name := tls.get("secretName"):
            yield from field.each(f"{path}.secretName", name, dns_subdomain(name))
    if (name := spec.get("ingressClassName")) is not None:
        yield from field.each("spec.ingressClassName", name, dns_subdomain(name))


def new_ingress(manifest: Manifest) -> Causes:
    """Validates the rule that holds for new Ingresses only."""
    name, annotation = (
        (manifest.get("spec") or {}).get("ingressClassName"),
        annotations_of(manifest).get(CLASS_ANNOTATION),
    )
    if name is not None and annotation is not None and name != annotation:
        detail = "must match `ingressClassName` when both are specified"
        yield field.invalid(f"annotations.{CLASS_ANNOTATION}", annotation, detail)


def ingress_status(new: Manifest, old: Manifest, subresource: str) -> Causes:
    """Validates the status of an Ingress."""
    if subresource != "status":
        return
    balancer = (new.get("status") or {}).get("loadBalancer") or {}
    for path, point in field.items(balancer, "ingress", "status.loadBalancer"):
        if address := point.get("ip"):
            yield from field.each(f"{path}.ip", address, ip_address(address))
        if host := point.get("hostname"):
            yield from field.each(f"{path}.hostname", host, dns_subdomain(host))
            yield from _not_an_address(host, f"{path}.hostname")


def _rule(rule: Manifest, path: str) -> Causes:
    if host := rule.get("host"):
        yield from _not_an_address(host, f"{path}.host")
        yield from _host(host, f"{path}.host")
    if (http := rule.get("http")) is None:
        return
    if not http.get("paths"):
        yield field.required(f"{path}.http.paths")
    for place, entry in field.items(http, "paths", f"{path}.http"):
        yield from _path(entry, place)


def _path(entry: Manifest, place: str) -> Causes:
    kind, path = entry.get("pathType"), entry.get("path") or ""
    if kind is None:
        yield field.required(f"{place}.pathType", "pathType must be specified")
        return
    if kind not in _PATH_TYPES:
        yield field.unsupported(f"{place}.pathType", kind, _PATH_TYPES)
    elif not path.startswith("/") and (path or kind != "ImplementationSpecific"):
        yield field.invalid(f"{place}.path", path, "must be an absolute path")
    if kind in ("Exact", "Prefix"):
        for sequence in _INVALID_SEQUENCES:
            if sequence in path:
                yield field.invalid(f"{place}.path", path, f"must not contain '{sequence}'")
        for suffix in _INVALID_SUFFIXES:
            if path.endswith(suffix):
                yield field.invalid(f"{place}.path", path, f"cannot end with '{suffix}'")
    yield from _backend(entry.get("backend") or {}, f"{place}.backend")


def _backend(backend: Manifest, path: str) -> Causes:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        yield field.invalid(path, "", "cannot set both resource and service backends")
    elif resource is not None:
        yield from _reference(resource, f"{path}.resource")
    elif service is not None:
        yield from _service(service, path)
    else:
        yield field.invalid(path, "", "resource or service backend is required")


def _service(service: Manifest, path: str) -> Causes:
    if name := service.get("name"):
        yield from field.each(f"{path}.service.name", name, dns_label(name))
    else:
        yield field.required(f"{path}.service.name")
    port = service.get("port") or {}
    name, number = port.get("name") or "", port.get("number") or 0
    if name and number:
        yield field.invalid(path, "", "cannot set both port name & port number")
    elif name:
        yield from field.each(f"{path}.service.port.name", name, port_name(name))
    elif number:
        yield from field.each(f"{path}.service.port.number", number, port_number(number))
    else:
        yield field.required(path, "port name or number is required")


def _host(host: str, path: str) -> Causes:
    yield from field.each(path, host, wildcard_subdomain(host) if "*" in host else dns_subdomain(host))


def _not_an_address(host: str, path: str) -> Causes:
    if not ip_address(host):
        yield field.invalid(path, host, "must be a DNS name, not an IP address")


def _reference(reference: Manifest, path: str) -> Causes:
    if (group := reference.get("apiGroup")) is not None:
        yield from field.each(f"{path}.apiGroup", group, dns_subdomain(group))
    for name in ("kind", "name"):
        if value := reference.get(name):
            yield from field.each(f"{path}.{name}", value, path_segment(value))
        else:
            yield field.required(f"{path}.{name}")


def ingress_class(manifest: Manifest) -> Causes:
    """Validates an IngressClass."""
    spec = manifest.get("spec") or {}
    controller = spec.get("controller") or ""
    if not controller:
        yield field.required("spec.controller")
    else:
        if len(controller.encode()) > _LONGEST_CONTROLLER:
            yield field.too_long("spec.controller", _LONGEST_CONTROLLER)
        yield from domain_prefixed_path("spec.controller", controller)
    if (parameters := spec.get("parameters")) is not None:
        yield from _reference(parameters, "spec.parameters")
        yield from _scope(parameters, "spec.parameters")


def ingress_class_update(new: Manifest, old: Manifest, subresource: str) -> Causes:
    before, after = old.get("spec") or {}, new.get("spec") or {}
    yield from field.immutable("spec.controller", after.get("controller"), before.get("controller"))


def _scope(parameters: dict[str, Any], path: str) -> Causes:
    scope, namespace = parameters.get("scope"), parameters.get("namespace")
    if scope is None:
        yield field.required(f"{path}.scope")
    elif scope not in _SCOPES:
        yield field.unsupported(f"{path}.scope", scope, _SCOPES)
    elif scope == "Cluster" and namespace is not None:
        yield field.forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'")
    elif scope == "Namespace" and namespace is None:
        yield field.required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'")
    elif scope == "Namespace":
        yield from field.each(f"{path}.namespace", namespace, dns_label(namespace))
