"""Adds a cluster to a kubeconfig and removes it; entries of other clusters in the same file are kept."""

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from volcano.base.http.tls_context import write_private
from volcano.base.yaml_loader import FILES, YamlError, load_yaml
from volcano.embedded.state import CONTEXT

if TYPE_CHECKING:  # it imports the cryptography library, which vcctl does not need
    from volcano.embedded.credentials import Credentials

EXTENSION = "volcano-cluster"  # of clusters that this program has added
_SECTIONS = ("clusters", "users", "contexts")


class KubeconfigError(OSError):
    """An existing file that is not a kubeconfig; it is left unchanged."""


def write_kubeconfig(
    path: Path, url: str, credentials: "Credentials", context: str = CONTEXT, directory: Path | None = None
) -> str:
    """Adds a cluster with admin credentials to a kubeconfig and makes it the current context.

    Returns the context that was current before. `directory` is recorded, so that the cluster can be found again.
    """
    authority = base64.b64encode(credentials.authority.cert_pem).decode()
    cluster: dict[str, Any] = {"server": url, "certificate-authority-data": authority}
    if directory is not None:
        cluster["extensions"] = [{"name": EXTENSION, "extension": {"directory": str(directory)}}]
    ours: dict[str, dict[str, Any]] = {
        "clusters": {"name": context, "cluster": cluster},
        "users": {"name": _user(context), "user": {"token": credentials.admin_token}},
        "contexts": {"name": context, "context": {"cluster": context, "user": _user(context)}},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    place = path.resolve()  # a symbolic link is kept
    present = _present(place)
    config = {"apiVersion": "v1", "kind": "Config", **present, "current-context": context}
    for section, entry in ours.items():
        config[section] = [*_others(config, section, entry["name"]), entry]
    config.setdefault("preferences", {})
    write_private(place, yaml.safe_dump(config, sort_keys=False).encode())
    return str(present.get("current-context") or "")


def remove_context(path: Path, context: str, previous: str = "") -> bool:
    """Removes a cluster from a kubeconfig; returns whether it was there.

    If it was the current context, `previous` becomes current where it exists, or else any other one.
    """
    place = path.resolve()
    if not place.exists():
        return False
    config = _present(place)
    if not any(entry.get("name") == context for entry in config.get("contexts") or []):
        return False
    for section, name in (("clusters", context), ("users", _user(context)), ("contexts", context)):
        config[section] = _others(config, section, name)
    if config.get("current-context") == context:
        remaining = [str(entry.get("name")) for entry in config["contexts"]]
        chosen = previous if previous in remaining else (remaining[0] if remaining else "")
        config["current-context"] = chosen
    write_private(place, yaml.safe_dump(config, sort_keys=False).encode())
    return True


def recorded_directories(path: Path) -> dict[str, Path]:
    """Directories of the clusters in a kubeconfig, by context."""
    try:
        clusters = _present(path).get("clusters") or []
    except KubeconfigError:
        return {}
    found = {}
    for entry in clusters:
        cluster = entry.get("cluster") or {}
        for extension in cluster.get("extensions") or ():
            if extension.get("name") == EXTENSION:
                found[str(entry.get("name"))] = Path(str(extension["extension"]["directory"]))
    return found


def _user(context: str) -> str:
    return f"{context}-admin"


def _others(config: dict[str, Any], section: str, name: str) -> list[dict[str, Any]]:
    return [entry for entry in config.get(section) or [] if entry.get("name") != name]


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
        raise KubeconfigError(f"{path}: exists and is not a kubeconfig; choose another file")
    return dict(config)


def _entries(value: object) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(entry, dict) for entry in value))
