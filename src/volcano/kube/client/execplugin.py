"""Exec credential plugins: programs that print an ExecCredential."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from volcano.base.clock import parse_timestamp
from volcano.base.http.tls_context import Credential
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.credentials import CredentialError, ExecCredential

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
MODES = ("IfAvailable", "Never", "Always")
TIMEOUT_SECONDS = 120.0

# Fields of a kubeconfig cluster that are passed to a plugin.
_CLUSTER_FIELDS = {
    "server": "server",
    "tls-server-name": "tls-server-name",
    "insecure-skip-tls-verify": "insecure-skip-tls-verify",
    "certificate-authority-data": "certificate-authority-data",
    "proxy-url": "proxy-url",
}


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """Configuration of an exec credential plugin."""

    command: str
    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    api_version: str
    install_hint: str
    cluster: Manifest | None  # passed to the plugin, if it requests it

    def run(self, environment: Mapping[str, str]) -> ExecCredential:
        """Runs the plugin and parses its output. Raises `CredentialError`."""
        info: Manifest = {"interactive": False}
        if self.cluster is not None:
            info["cluster"] = self.cluster
        request = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": info}
        variables = {
            **environment,
            **dict(self.environment),
            "KUBERNETES_EXEC_INFO": orjson.dumps(request).decode(),
        }
        try:
            done = subprocess.run(
                [self.command, *self.arguments],
                env=variables,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise CredentialError(
                f"plugin {self.command!r} took longer than {TIMEOUT_SECONDS:g} seconds"
            ) from None
        except OSError as error:
            hint = f"\n{self.install_hint}" if self.install_hint else ""
            raise CredentialError(f"plugin {self.command!r} cannot be run: {error.strerror}{hint}") from error
        if done.returncode != 0:
            stderr = done.stderr.decode("utf-8", "replace").strip()
            raise CredentialError(
                f"plugin {self.command!r} failed with exit code {done.returncode}: {stderr}"
            )
        return parse_exec_credential(done.stdout, self)


def parse_plugin(values: Any, directory: Path, cluster: Manifest) -> ExecPlugin:
    """Parses the `exec` section of a kubeconfig user. Raises ValueError."""
    if not isinstance(values, dict) or not values.get("command"):
        raise ValueError("command must be set")
    if values.get("apiVersion") not in API_VERSIONS:
        raise ValueError(
            f"apiVersion must be one of {', '.join(API_VERSIONS)}, not {values.get('apiVersion')!r}"
        )
    mode = values.get("interactiveMode") or ("IfAvailable" if values["apiVersion"] == API_VERSIONS[1] else "")
    if mode not in MODES:
        raise ValueError(f"interactiveMode must be one of {', '.join(MODES)}, not {mode or None!r}")
    if mode == "Always":
        raise ValueError("interactiveMode Always is not supported: there is no terminal")
    command = str(values["command"])
    if os.sep in command:  # a path is relative to the file; a bare name is looked up in PATH
        command = str(directory / command)
    cluster_info = {name: cluster[key] for key, name in _CLUSTER_FIELDS.items() if cluster.get(key)}
    return ExecPlugin(
        command,
        tuple(str(argument) for argument in values.get("args") or ()),
        tuple((str(entry["name"]), str(entry["value"])) for entry in values.get("env") or ()),
        str(values["apiVersion"]),
        str(values.get("installHint") or ""),
        cluster_info if values.get("provideClusterInfo") else None,
    )


def parse_exec_credential(output: bytes, plugin: ExecPlugin) -> ExecCredential:
    """Parses the output of a plugin. Raises `CredentialError`."""
    name = f"plugin {plugin.command!r}"
    try:
        document = orjson.loads(output)
    except orjson.JSONDecodeError as error:
        raise CredentialError(f"{name} must print an ExecCredential as JSON: {error}") from error
    if not isinstance(document, dict) or document.get("kind") != "ExecCredential":
        raise CredentialError(f"{name} must print an object of kind ExecCredential")
    if document.get("apiVersion") != plugin.api_version:
        raise CredentialError(
            f"{name} must answer in apiVersion {plugin.api_version}, not {document.get('apiVersion')!r}"
        )
    status = document.get("status") or {}
    token, cert, key = (
        status.get(field) or "" for field in ("token", "clientCertificateData", "clientKeyData")
    )
    if bool(cert) is not bool(key):
        raise CredentialError(f"{name} must print clientCertificateData and clientKeyData together")
    if not token and not cert:
        raise CredentialError(f"{name} printed neither a token nor a client certificate")
    expires = status.get("expirationTimestamp")
    try:
        until = parse_timestamp(expires) if expires else None
    except ValueError as error:
        raise CredentialError(f"{name}: expirationTimestamp {expires!r} is no timestamp") from error
    return ExecCredential(token, Credential(cert.encode(), key.encode()) if cert else None, until)
