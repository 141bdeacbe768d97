"""Credentials of viewers."""

from dataclasses import fields
from pathlib import Path

from volcano.base.http.tls_context import Credential
from volcano.dashboard.viewer import impersonating, with_token
from volcano.kube.client.credentials import Impersonation
from volcano.kube.client.kubeconfig import ClientConfig

ADMIN = ClientConfig(
    server="https://127.0.0.1:6443",
    origin="~/.kube/config",
    namespace="research",
    authority=b"ca",
    server_name="kubernetes",
    proxy_url="http://proxy:3128",
    token="admin",
    token_file=Path("/token"),
    username="admin",
    password="secret",
    certificate=Credential(b"certificate", b"key"),
    certificate_files=(Path("/tls.crt"), Path("/tls.key")),
    impersonation=Impersonation(user="admin", groups=("system:masters",)),
)
CONNECTION = {"server", "origin", "namespace", "authority", "insecure", "server_name", "proxy_url"}


def test_a_token_replaces_every_credential_of_the_kubeconfig() -> None:
    viewer = with_token(ADMIN, "mine")
    left = {
        field.name
        for field in fields(ClientConfig)
        if getattr(viewer, field.name) == getattr(ADMIN, field.name)
        and getattr(viewer, field.name) != field.default
    }
    assert left == {each for each in CONNECTION if each != "insecure"}
    assert viewer.token == "mine"


def test_a_user_of_a_proxy_is_impersonated_with_all_groups() -> None:
    viewer = impersonating(ADMIN, "alice", ("a", "b"))
    assert viewer.impersonation == Impersonation(user="alice", groups=("a", "b"))
