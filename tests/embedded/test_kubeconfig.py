"""The kubeconfig of a cluster, in a file of its own or in one that other clusters are in."""

from pathlib import Path

import pytest
import yaml

from volcano.base.http.tls import Authority, Credential
from volcano.embedded.credentials import Credentials
from volcano.embedded.kubeconfig import KubeconfigError, write_kubeconfig

SERVER, CLIENT = Credential(b"server", b"key"), Credential(b"client", b"key")
KEYS = Credentials(Authority(b"authority", b"key"), SERVER, CLIENT, "token", b"signing")
OTHER = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "prod", "cluster": {"server": "https://prod.example"}}],
    "users": [{"name": "me", "user": {"token": "precious"}}],
    "contexts": [{"name": "prod", "context": {"cluster": "prod", "user": "me"}}],
    "current-context": "prod",
    "extensions": [{"name": "x"}],
}


def read(path: Path) -> dict[str, object]:
    config: dict[str, object] = yaml.safe_load(path.read_text())
    return config


@pytest.mark.parametrize("before", [None, ""], ids=["no file", "an empty file"])
def test_a_kubeconfig_of_its_own_is_for_its_owner_only(before: str | None, tmp_path: Path) -> None:
    path = tmp_path / "new" / "kubeconfig"
    if before is not None:
        path.parent.mkdir()
        path.write_text(before)
    write_kubeconfig(path, "https://127.0.0.1:1", KEYS)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read(path)["current-context"] == "volcano"
    assert read(path)["users"] == [{"name": "volcano-admin", "user": {"token": "token"}}]


def test_other_clusters_stay_in_the_file_and_starting_again_changes_only_our_entry(tmp_path: Path) -> None:
    path, link = tmp_path / "config", tmp_path / "link"
    path.write_text(yaml.safe_dump(OTHER))
    link.symlink_to(path)
    for url in ("https://127.0.0.1:1", "https://127.0.0.1:2"):
        write_kubeconfig(link, url, KEYS)
    config = read(path)
    assert link.is_symlink()
    assert config["users"] == [*OTHER["users"], {"name": "volcano-admin", "user": {"token": "token"}}]
    assert [(entry["name"], entry["cluster"]["server"]) for entry in config["clusters"]] == [  # type: ignore[attr-defined]
        ("prod", "https://prod.example"),
        ("volcano", "https://127.0.0.1:2"),
    ]
    assert (config["current-context"], config["extensions"]) == ("volcano", [{"name": "x"}])


@pytest.mark.parametrize("text", ["my thesis\n", "a: [\n", "kind: Pod\n", "clusters: 5\n", "users: [x]\n"])
def test_a_file_that_is_no_kubeconfig_is_left_as_it_is(text: str, tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text(text)
    with pytest.raises(KubeconfigError, match="precious: exists and is not a kubeconfig"):
        write_kubeconfig(path, "https://127.0.0.1:1", KEYS)
    assert path.read_text() == text
