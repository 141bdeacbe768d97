"""kubeconfig files: merged, overridden by flags, and converted to a ClientConfig."""

import base64
import binascii
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from volcano.base.http.tls_context import Credential
from volcano.base.yaml_loader import FILES, YamlError, load_yaml
from volcano.kube.client.credentials import NO_IMPERSONATION, Impersonation
from volcano.kube.client.execplugin import ExecPlugin, parse_plugin

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_SECTIONS = {"clusters": "cluster", "users": "user", "contexts": "context"}


class ConfigError(Exception):
    """The configuration is invalid; the message names the file, the entry and the correct form."""


@dataclass(frozen=True, slots=True)
class Overrides:
    """Values of command line flags that override the file."""

    context: str = ""
    cluster: str = ""
    user: str = ""
    server: str = ""
    namespace: str = ""
    token: str = ""
    insecure: bool = False
    impersonate: Impersonation = NO_IMPERSONATION


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """Connection to an API server: its address, authority, credentials and impersonation."""

    server: str
    origin: str = ""  # where the configuration comes from, for messages
    namespace: str = "default"
    authority: bytes | None = None
    insecure: bool = False
    server_name: str = ""
    proxy_url: str = ""
    token: str = ""
    token_file: Path | None = None
    username: str = ""
    password: str = ""
    certificate: Credential | None = None
    certificate_files: tuple[Path, Path] | None = None
    plugin: ExecPlugin | None = None
    impersonation: Impersonation = NO_IMPERSONATION


@dataclass(frozen=True, slots=True)
class _Entry:
    """One named entry and the file it was read from; its relative paths are relative to that file."""

    name: str
    file: Path
    section: str
    values: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.file}: {self.section} {self.name!r}"

    def text(self, field: str) -> str:
        value = self.values.get(field)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise ConfigError(f"{self}: {field} must be a string, not {value!r}")
        return value

    def path(self, field: str) -> Path | None:
        text = self.text(field)
        return self.file.parent / text if text else None

    def content(self, field: str) -> bytes | None:
        """Returns the content of `<field>-data` in base64, else of the file named by `field`."""
        if data := self.text(f"{field}-data"):
            try:
                return base64.b64decode(data, validate=True)
            except binascii.Error as error:
                raise ConfigError(f"{self}: {field}-data is not base64: {error}") from error
        path = self.path(field)
        return _read(path, f"{self}: {field}") if path else None


@dataclass(slots=True)
class _Merged:
    files: list[Path] = field(default_factory=list)
    current: str = ""
    entries: dict[tuple[str, str], _Entry] = field(default_factory=dict)

    def find(self, section: str, name: str, wanted_by: str) -> _Entry:
        entry = self.entries.get((section, name))
        if entry is None:
            known = ", ".join(sorted(n for s, n in self.entries if s == section)) or "none"
            raise ConfigError(f"{wanted_by}: there is no {section} {name!r}; there is: {known}")
        return entry


def load_client_config(
    environment: Mapping[str, str],
    *,
    kubeconfig: str = "",
    overrides: Overrides = Overrides(),
    service_account: Path = SERVICE_ACCOUNT,
) -> ClientConfig:
    """Loads `kubeconfig`, else KUBECONFIG, else ~/.kube/config, else the in-cluster configuration. Raises
    `ConfigError`."""
    merged = _merge(kubeconfig_files(environment, kubeconfig), required=bool(kubeconfig))
    if merged.entries or merged.current or overrides.server:
        return _settings(merged, overrides)
    if "KUBERNETES_SERVICE_HOST" in environment:
        return in_cluster_config(environment, service_account)
    looked = ", ".join(str(path) for path in kubeconfig_files(environment, kubeconfig))
    raise ConfigError(
        f"no cluster is configured: looked for {looked} and for the service account of a pod; "
        "name a file with --kubeconfig or KUBECONFIG"
    )


def kubeconfig_files(environment: Mapping[str, str], kubeconfig: str = "") -> list[Path]:
    """Returns the files to read, in order of precedence."""
    if kubeconfig:
        return [Path(kubeconfig).expanduser()]
    if listed := environment.get("KUBECONFIG", ""):
        return [Path(part).expanduser() for part in listed.split(os.pathsep) if part]
    return [Path(environment.get("HOME") or Path.home()) / ".kube" / "config"]


def in_cluster_config(
    environment: Mapping[str, str], service_account: Path = SERVICE_ACCOUNT
) -> ClientConfig:
    """Returns the configuration of a pod: its cluster's API server and its service account's token, which
    rotates."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise ConfigError(
            "not inside a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be set"
        )
    token_file, namespace_file = service_account / "token", service_account / "namespace"
    _read(token_file, "in-cluster service account token")
    namespace = namespace_file.read_text().strip() if namespace_file.exists() else "default"
    return ClientConfig(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        origin="in-cluster service account",
        namespace=namespace,
        authority=_read(service_account / "ca.crt", "in-cluster certificate authority"),
        token_file=token_file,
    )


def _merge(paths: Sequence[Path], *, required: bool) -> _Merged:
    merged = _Merged()
    for path in paths:
        if not path.exists() and not required:
            continue
        merged.files.append(path)
        document = _parse(path)
        merged.current = merged.current or str(document.get("current-context") or "")
        for entry in _entries(path, document):
            merged.entries.setdefault((entry.section, entry.name), entry)
    return merged


def _parse(path: Path) -> Mapping[str, Any]:
    try:
        document = load_yaml(_read(path, "kubeconfig"), FILES).value
    except YamlError as error:
        raise ConfigError(f"{path}: not valid YAML: {error}") from error
    if document is None:
        return {}
    if not isinstance(document, dict) or document.get("kind", "Config") != "Config":
        raise ConfigError(f"{path}: not a kubeconfig; its kind must be Config")
    return document


def _entries(path: Path, document: Mapping[str, Any]) -> Iterator[_Entry]:
    for section, inner in _SECTIONS.items():
        for number, item in enumerate(document.get(section) or ()):
            if not isinstance(item, dict) or not item.get("name"):
                raise ConfigError(f"{path}: {section}[{number}] must have a name and a {inner}")
            values = item.get(inner) or {}
            if not isinstance(values, dict):
                raise ConfigError(f"{path}: {section}[{number}].{inner} must be a mapping")
            yield _Entry(str(item["name"]), path, inner, values)


def _settings(merged: _Merged, overrides: Overrides) -> ClientConfig:
    files = ", ".join(map(str, merged.files)) or "command line"
    name = overrides.context or merged.current
    context = _Entry("", Path(), "context", {})
    if name:
        context = merged.find("context", name, files)
    elif not (overrides.cluster or overrides.server):
        raise ConfigError(f"{files}: current-context is not set; choose a context with --context")
    cluster_name = overrides.cluster or context.text("cluster")
    if not cluster_name and not overrides.server:
        raise ConfigError(f"{context} names no cluster")
    cluster = _Entry("", Path(), "cluster", {})
    if cluster_name:
        cluster = merged.find("cluster", cluster_name, str(context) if name else files)
    user_name = overrides.user or context.text("user")
    user = _Entry("", Path(), "user", {})
    if user_name:
        user = merged.find("user", user_name, str(context) if name else files)
    server = overrides.server or cluster.text("server")
    if not server.startswith(("http://", "https://")):
        raise ConfigError(f"{cluster}: server {server!r} must look like https://host:port")
    insecure = overrides.insecure or bool(cluster.values.get("insecure-skip-tls-verify"))
    authority = cluster.content("certificate-authority")
    if authority is not None and cluster.values.get("insecure-skip-tls-verify"):
        raise ConfigError(f"{cluster}: certificate-authority and insecure-skip-tls-verify exclude each other")
    return ClientConfig(
        server=server.rstrip("/"),
        origin=f"{files}, context {name!r}" if name else files,
        namespace=overrides.namespace or context.text("namespace") or "default",
        authority=None if insecure else authority,
        insecure=insecure,
        server_name=cluster.text("tls-server-name"),
        proxy_url=cluster.text("proxy-url"),
        **_identity(user, cluster, overrides),
    )


def _identity(user: _Entry, cluster: _Entry, overrides: Overrides) -> dict[str, Any]:
    """Returns the credentials and impersonation of a user."""
    if user.values.get("auth-provider"):
        raise ConfigError(f"{user}: auth-provider is no longer supported by Kubernetes; use exec")
    certificate, key = user.content("client-certificate"), user.content("client-key")
    if (certificate is None) is not (key is None):
        raise ConfigError(f"{user}: client-certificate and client-key must be given together")
    cert_path, key_path = user.path("client-certificate"), user.path("client-key")
    inline = user.text("client-certificate-data") or user.text("client-key-data")
    files = (cert_path, key_path) if cert_path and key_path and not inline else None
    plugin = None
    if user.values.get("exec") is not None:
        try:
            plugin = parse_plugin(user.values["exec"], user.file.parent, dict(cluster.values))
        except ValueError as error:
            raise ConfigError(f"{user}: exec: {error}") from error
    if overrides.token:
        return {"token": overrides.token, "impersonation": _impersonation(user, overrides)}
    return {
        "token": user.text("token"),
        "token_file": user.path("tokenFile"),
        "username": user.text("username"),
        "password": user.text("password"),
        "certificate": Credential(certificate, key) if certificate and key and not files else None,
        "certificate_files": files,
        "plugin": plugin,
        "impersonation": _impersonation(user, overrides),
    }


def _impersonation(user: _Entry, overrides: Overrides) -> Impersonation:
    if overrides.impersonate != NO_IMPERSONATION:
        return overrides.impersonate
    extra = user.values.get("as-user-extra") or {}
    return Impersonation(
        user.text("as"),
        user.text("as-uid"),
        tuple(user.values.get("as-groups") or ()),
        {str(name): tuple(values) for name, values in extra.items()},
    )


def _read(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{what}: cannot read {path}: {error.strerror}") from error
