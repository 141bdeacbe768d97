"""kubeconfig files are merged, overridden and rejected as kubectl does."""

import base64
import stat
import time
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from tests.kube.client.conftest import PatientClock, Script, json
from volcano.base.clock import timestamp
from volcano.base.http import tls
from volcano.base.http.messages import Request, Response
from volcano.base.http.server import Server
from volcano.kube.api import errors
from volcano.kube.api.kinds import POD
from volcano.kube.api.manifest import Key
from volcano.kube.client.connect import connect
from volcano.kube.client.credentials import Impersonation
from volcano.kube.client.kubeconfig import ClientConfig, ConfigError, Overrides, load_client_config

KEY = Key("default", "web")


def config(
    user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None, **top: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "shop"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://one:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        **top,
    }


def write(path: Path, document: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return path


def load(path: Path, **overrides: Any) -> ClientConfig:
    return load_client_config({}, kubeconfig=str(path), overrides=Overrides(**overrides))


def test_the_current_context_says_where_and_who(tmp_path: Path) -> None:
    path = write(
        tmp_path / "config", config({"token": "t"}, {"tls-server-name": "n", "proxy-url": "http://p:1"})
    )
    settings = load(path)
    assert settings == ClientConfig(
        server="https://one:6443",
        origin=f"{path}, context 'here'",
        namespace="shop",
        token="t",
        server_name="n",
        proxy_url="http://p:1",
    )


def test_several_files_are_merged_and_the_first_word_counts(tmp_path: Path) -> None:
    first = {
        "current-context": "mix",
        "contexts": [{"name": "mix", "context": {"cluster": "c", "user": "far"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://first"}}],
    }
    second = config({"token": "near"}, users=[{"name": "far", "user": {"tokenFile": "tok"}}])
    paths = [
        write(tmp_path / "a" / "one", first),
        tmp_path / "missing",
        write(tmp_path / "b" / "two", second),
    ]
    settings = load_client_config({"KUBECONFIG": ":".join(map(str, paths))})
    assert (settings.server, settings.namespace) == ("https://first", "default")
    assert settings.token_file == tmp_path / "b" / "tok"  # relative to the file that says so


def test_the_home_directory_is_looked_at_last(tmp_path: Path) -> None:
    write(tmp_path / ".kube" / "config", config())
    assert load_client_config({"HOME": str(tmp_path)}).server == "https://one:6443"


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    document = config({"token": "t", "as": "alice"})
    document["contexts"].append({"name": "there", "context": {"cluster": "c2"}})
    document["clusters"].append({"name": "c2", "cluster": {"server": "https://two/"}})
    path = write(tmp_path / "config", document)
    assert load(path, context="there").server == "https://two"
    assert load(path, cluster="c2").server == "https://two"
    assert load(path, server="https://three", namespace="n", token="x").token == "x"
    assert load(path).impersonation == Impersonation("alice")
    assert load(path, impersonate=Impersonation("bob")).impersonation == Impersonation("bob")


@pytest.mark.parametrize(
    ("document", "overrides", "complaint"),
    [
        pytest.param("a: [", {}, "{path}: not valid YAML", id="broken YAML"),
        pytest.param("[1]", {}, "{path}: not a kubeconfig; its kind must be Config", id="something else"),
        pytest.param(
            {**config(), "current-context": ""}, {}, "current-context is not set; choose", id="no context"
        ),
        pytest.param(
            config(), {"context": "x"}, "{path}: there is no context 'x'; there is: here", id="wrong context"
        ),
        pytest.param(
            config(clusters=[]), {}, "context 'here': there is no cluster 'c'; there is: none", id="no c"
        ),
        pytest.param(config(users=[]), {}, "context 'here': there is no user 'u'", id="no user"),
        pytest.param(
            config(cluster={"server": "one"}), {}, "cluster 'c': server 'one' must look", id="no scheme"
        ),
        pytest.param(
            config(cluster={"certificate-authority": "gone.crt"}),
            {},
            "cluster 'c': certificate-authority: cannot read {dir}/gone.crt: No such file",
            id="no authority",
        ),
        pytest.param(
            config(cluster={"certificate-authority-data": "%%"}), {}, "is not base64", id="broken authority"
        ),
        pytest.param(
            config({"client-certificate-data": "YQ=="}), {}, "user 'u': client-certificate and", id="no key"
        ),
        pytest.param(config({"auth-provider": {"name": "x"}}), {}, "no longer supported", id="auth provider"),
        pytest.param(config({"token": 5}), {}, "user 'u': token must be a string, not 5", id="wrong type"),
        pytest.param(config({"exec": {}}), {}, "user 'u': exec: command must be set", id="no command"),
        pytest.param(
            config({"exec": {"command": "x", "apiVersion": "v9"}}),
            {},
            "exec: apiVersion must be one of client.authentication.k8s.io/v1, ",
            id="unknown plugin version",
        ),
        pytest.param(
            config({"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1"}}),
            {},
            "exec: interactiveMode must be one of IfAvailable, Never, Always, not None",
            id="no mode",
        ),
        pytest.param(
            config(users=[{"user": {}}]), {}, r"users\[0\] must have a name and a user", id="no name"
        ),
    ],
)
def test_a_complaint_names_the_file_and_what_would_be_right(
    tmp_path: Path, document: Any, overrides: dict[str, Any], complaint: str
) -> None:
    path = write(tmp_path / "config", document)
    with pytest.raises(ConfigError, match=complaint.format(path=path, dir=tmp_path)) as caught:
        load(path, **overrides)
    assert str(path) in str(caught.value)


def test_nothing_configured_is_said_with_where_we_looked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"looked for {tmp_path}/\.kube/config and .*--kubeconfig"):
        load_client_config({"HOME": str(tmp_path)})
    with pytest.raises(ConfigError, match="kubeconfig: cannot read /no/such: No such file"):
        load_client_config({}, kubeconfig="/no/such")


def test_inside_a_pod_the_service_account_is_used(tmp_path: Path) -> None:
    for name, content in (("token", "t"), ("ca.crt", "PEM"), ("namespace", "batch\n")):
        write(tmp_path / name, content)
    environment = {
        "HOME": str(tmp_path),
        "KUBERNETES_SERVICE_HOST": "fd00::1",
        "KUBERNETES_SERVICE_PORT": "443",
    }
    settings = load_client_config(environment, service_account=tmp_path)
    assert (settings.server, settings.namespace) == ("https://[fd00::1]:443", "batch")
    assert (settings.token_file, settings.authority) == (tmp_path / "token", b"PEM")


async def headers_sent(settings: ClientConfig, script: Script, clock: PatientClock) -> dict[str, str]:
    script.answers = [json({})]
    client = connect(settings, clock, environment={})
    await client.get(POD, KEY)
    await client.close()
    return dict(script.requests[-1].headers)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param({"token": "t"}, {"authorization": "Bearer t"}, id="token"),
        pytest.param({"username": "u", "password": "p"}, {"authorization": "Basic dTpw"}, id="basic"),
        pytest.param(
            {"impersonation": Impersonation("alice", "7", ("a", "b"), {"scope": ("x",)})},
            {
                "impersonate-user": "alice",
                "impersonate-uid": "7",
                "impersonate-group": "a, b",  # two lines on the wire, joined by the receiver
                "impersonate-extra-scope": "x",
            },
            id="impersonation",
        ),
    ],
)
async def test_settings_become_headers(
    server: Server, script: Script, clock: PatientClock, settings: dict[str, Any], expected: dict[str, str]
) -> None:
    sent = await headers_sent(ClientConfig(server.url, **settings), script, clock)
    assert {name: sent.get(name) for name in expected} == expected


async def test_a_token_file_is_read_again_when_it_rotates(
    server: Server, script: Script, clock: PatientClock, tmp_path: Path
) -> None:
    path = write(tmp_path / "token", "first\n")
    client = connect(ClientConfig(server.url, token_file=path), clock, environment={})
    script.answers = [json({})]
    await client.get(POD, KEY)
    path.write_text("second\n")
    await client.get(POD, KEY)
    await clock.sleep(61)
    await client.get(POD, KEY)
    assert [r.headers["authorization"] for r in script.requests] == [
        "Bearer first",
        "Bearer first",
        "Bearer second",
    ]
    await client.close()


async def test_a_refused_token_is_read_again_at_once(
    server: Server, script: Script, clock: PatientClock, tmp_path: Path
) -> None:
    path = write(tmp_path / "token", "old")

    def judge(request: Request) -> Response:
        if request.headers["authorization"] == "Bearer new":
            return json({"kind": "Pod"})
        path.write_text("new")
        return json({"kind": "Status", "reason": "Unauthorized", "code": 401}, 401)

    script.answers = [judge]
    client = connect(ClientConfig(server.url, token_file=path), clock, environment={})
    assert await client.get(POD, KEY) == {"kind": "Pod"}
    await client.close()


PLUGIN = """#!/bin/sh
echo "$KUBERNETES_EXEC_INFO" > "$(dirname "$0")/asked"
echo x >> "$(dirname "$0")/runs"
cat "$(dirname "$0")/answer"
exit ${EXIT:-0}
"""


class PluginScript:
    """A credential plugin on disk whose answer can be changed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        write(directory / "plugin", PLUGIN).chmod(stat.S_IRWXU)

    def settings(self, server: str, **more: Any) -> ClientConfig:
        values = {
            "command": "./plugin",
            "apiVersion": "client.authentication.k8s.io/v1",
            "interactiveMode": "Never",
        }
        document = config({"exec": {**values, **more}}, {"server": server})
        return load(write(self.directory / "config", document))

    def answers(self, **status: Any) -> None:
        credential = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": status,
        }
        (self.directory / "answer").write_bytes(orjson.dumps(credential))

    @property
    def runs(self) -> int:
        return (self.directory / "runs").read_text().count("x")


async def test_a_plugins_token_is_kept_until_it_expires(
    server: Server, script: Script, clock: PatientClock, tmp_path: Path
) -> None:
    plugin = PluginScript(tmp_path)
    settings = plugin.settings(server.url, provideClusterInfo=True, env=[{"name": "EXIT", "value": "0"}])
    plugin.answers(token="one", expirationTimestamp=timestamp(clock.now().wall + 100))
    script.answers = [json({})]
    client = connect(settings, clock)
    await client.get(POD, KEY)
    await client.get(POD, KEY)
    assert plugin.runs == 1
    await clock.sleep(101)
    plugin.answers(token="two")
    await client.get(POD, KEY)
    assert [r.headers["authorization"] for r in script.requests] == ["Bearer one", "Bearer one", "Bearer two"]
    asked = orjson.loads((tmp_path / "asked").read_bytes())
    assert asked["spec"] == {"interactive": False, "cluster": {"server": server.url}}
    await client.close()


@pytest.mark.parametrize(
    ("answer", "more", "complaint"),
    [
        pytest.param("no json", {}, "must print an ExecCredential as JSON", id="no JSON"),
        pytest.param("{}", {}, "must print an object of kind ExecCredential", id="another kind"),
        pytest.param(
            '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1"}',
            {},
            "must answer in apiVersion client.authentication.k8s.io/v1, not",
            id="another version",
        ),
        pytest.param(None, {}, "neither a token nor a client certificate", id="nothing in it"),
        pytest.param(
            None, {"env": [{"name": "EXIT", "value": "3"}]}, "failed with exit code 3", id="it fails"
        ),
        pytest.param(
            None,
            {"command": "no-such-plugin", "installHint": "install it from the shop"},
            "'no-such-plugin' cannot be run: No such file or directory\ninstall it from the shop",
            id="it is missing",
        ),
    ],
)
async def test_a_plugins_failure_is_reported_plainly(
    server: Server,
    clock: PatientClock,
    tmp_path: Path,
    answer: str | None,
    more: dict[str, Any],
    complaint: str,
) -> None:
    plugin = PluginScript(tmp_path)
    plugin.answers()
    if answer is not None:
        (tmp_path / "answer").write_text(answer)
    client = connect(plugin.settings(server.url, **more), clock)
    with pytest.raises(errors.Unauthorized, match=complaint):
        await client.get(POD, KEY)
    await client.close()


async def whoami(request: Request) -> Response:
    return json({"kind": request.peer.common_name})


@pytest.mark.parametrize("how", ["data", "files", "plugin"])
async def test_client_certificates_are_shown(clock: PatientClock, tmp_path: Path, how: str) -> None:
    authority = tls.create_authority("ca", now=time.time())
    own = tls.issue(authority, "alice", now=time.time(), client=True)
    credential = tls.issue(authority, "s", now=time.time(), server=True, hosts=["127.0.0.1"])
    user: dict[str, Any] = {}
    if how == "data":
        user["client-certificate-data"] = base64.b64encode(own.cert_pem).decode()
        user["client-key-data"] = base64.b64encode(own.key_pem).decode()
    elif how == "files":
        user |= {"client-certificate": "alice.crt", "client-key": "alice.key"}
        (tmp_path / "alice.crt").write_bytes(own.cert_pem)
        (tmp_path / "alice.key").write_bytes(own.key_pem)
    else:
        plugin = PluginScript(tmp_path)
        plugin.answers(clientCertificateData=own.cert_pem.decode(), clientKeyData=own.key_pem.decode())
        user["exec"] = {"command": "./plugin", "apiVersion": "client.authentication.k8s.io/v1"}
        user["exec"]["interactiveMode"] = "Never"
    context = tls.server_context(credential, client_authority=authority.cert_pem)
    async with Server(whoami, tls=context) as server:
        trust = {"certificate-authority-data": base64.b64encode(authority.cert_pem).decode()}
        path = write(tmp_path / "config", config(user, {"server": server.url, **trust}))
        client = connect(load(path), clock)
        assert await client.get(POD, KEY) == {"kind": "alice"}
        await client.close()
        path = write(
            tmp_path / "config", config(user, {"server": server.url, "insecure-skip-tls-verify": True})
        )
        client = connect(load(path), clock)
        assert await client.get(POD, KEY) == {"kind": "alice"}
        await client.close()


def test_a_broken_certificate_is_named(clock: PatientClock, tmp_path: Path) -> None:
    path = write(tmp_path / "config", config(cluster={"certificate-authority-data": "YWJj"}))
    with pytest.raises(
        ConfigError, match=f"{path}, context 'here': the certificate authority, .* not valid PEM"
    ):
        connect(load(path), clock)


@pytest.mark.parametrize(
    ("server", "environment", "file_says", "proxy"),
    [
        pytest.param("https://a.example", {}, "", None, id="none"),
        pytest.param("https://a.example", {"HTTPS_PROXY": "http://p:1"}, "", ("p", 1), id="by variable"),
        pytest.param("http://a.example", {"https_proxy": "http://p:1"}, "", None, id="for the other scheme"),
        pytest.param(
            "https://a.example", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": ".example"}, "", None, id="exempt"
        ),
        pytest.param(
            "https://127.0.0.1", {"HTTPS_PROXY": "http://p:1"}, "", None, id="this machine needs none"
        ),
        pytest.param(
            "https://a.example", {"HTTPS_PROXY": "http://p:1"}, "http://q:2", ("q", 2), id="the file wins"
        ),
        pytest.param("https://127.0.0.1", {"NO_PROXY": "*"}, "http://q:2", ("q", 2), id="the file is obeyed"),
    ],
)
async def test_which_proxy_a_client_goes_through(
    clock: PatientClock,
    server: str,
    environment: dict[str, str],
    file_says: str,
    proxy: tuple[str, int] | None,
) -> None:
    client = connect(ClientConfig(server, proxy_url=file_says), clock, environment=environment)
    chosen = client._pool._proxy
    assert (None if chosen is None else (chosen.host, chosen.port)) == proxy
