"""Writes the kubeconfig of a cluster; entries of other clusters in the same file are kept."""

import base64
from pathlib import Path
from typing import Any

import yaml

from volcano.local.credentials import Credentials
from volcano.net.tls_context import write_private
from volcano.yaml_loader import FILES, YamlError, load_yaml

NAME = "volcano"
USER = "volcano-admin"
_SECTIONS = ("clusters", "users", "contexts")


class KubeconfigError(OSError):
    """An existing file that is not a kubeconfig; it is left unchanged."""


def write_kubeconfig(path: Path, url: str, credentials: Credentials) -> None:
    """Adds this cluster with admin credentials to a kubeconfig and makes it the current context."""
    authority = base64.b64encode(credentials.authority.cert_pem).decode()
    ours = {
        "clusters": {"name": NAME, "cluster": {"server": url, "certificate-authority-data": authority}},
        "users": {"name": USER, "user": {"token": credentials.admin_token}},
        "contexts": {"name": NAME, "context": {"cluster": NAME, "user": USER}},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    place = path.resolve()  # a symbolic link is kept
    config = {"apiVersion": "v1", "kind": "Config", **_present(place), "current-context": NAME}
    for section, entry in ours.items():
        others = [other for other in config.get(section) or [] if other.get("name") != entry["name"]]
        config[section] = [*others, entry]
    config.setdefault("preferences", {})
    write_private(place, yaml.safe_dump(config, sort_keys=False).encode())


def _present(path: Path) -> dict[str, Any]:
    """The existing kubeconfig; empty when there is none. Raises KubeconfigError for any other file."""
    try:
        text = path.read_bytes() if path.exists() else b""
        config = load_yaml(text, FILES).value
    except YamlError:
        config = "no YAML"
    if config is None:
        return {}
    fits = isinstance(config, dict) and config.get("kind", "Config") == "Config"
    if not fits or not all(_entries(config.get(section)) for section in _SECTIONS):
        raise KubeconfigError(f"{path}: there is a file already, and it is no kubeconfig; name another one")
    return dict(config)


def _entries(value: object) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(entry, dict) for entry in value))
