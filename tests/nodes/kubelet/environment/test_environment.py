"""A container's environment and command."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.nodes.kubelet.environment.pods import FACTS, config_map, container, pod, secret, service
from volcano.kube.api.manifest import Manifest
from volcano.nodes.kubelet.environment.environment import environment, own_command
from volcano.nodes.kubelet.environment.references import References
from volcano.nodes.shim.specs import Failure

API = service("kubernetes", "10.96.0.1", {"name": "https", "port": 443, "protocol": "TCP"})
WEB = service("my-web", "10.96.3.4", {"port": 80}, {"name": "grpc-x", "port": 90, "protocol": "UDP"})


def variables(of: Manifest, references: References = References(), **spec: Any) -> dict[str, str]:
    return environment(pod(of, **spec), of, references, FACTS)


def field(path: str) -> Manifest:
    return {"name": "X", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}


def test_values_refer_to_variables_declared_before_them_and_to_services() -> None:
    env = [
        {"name": "FIRST", "value": "$(SECOND)"},
        {"name": "SECOND", "value": "b"},
        {"name": "THIRD", "value": "$(SECOND)/$(KUBERNETES_SERVICE_HOST)/$$(SECOND)"},
    ]
    given = variables(container(env=env), References(services=[API]))
    assert (given["FIRST"], given["SECOND"], given["THIRD"]) == ("$(SECOND)", "b", "b/10.96.0.1/$(SECOND)")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "default"),
        ("metadata.uid", "uid-of-p"),
        ("metadata.labels['app']", "web"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['a.b/c']", "note"),
        ("metadata.labels", 'app="web"\nquote="a\\"b"'),
        ("spec.nodeName", "local-0"),
        ("spec.serviceAccountName", "runner"),
        ("status.hostIP", "192.0.2.7"),
        ("status.hostIPs", "192.0.2.7"),
        ("status.podIP", "10.88.0.5"),
        ("status.podIPs", "10.88.0.5"),
    ],
)
def test_fields_of_the_pod(path: str, expected: str) -> None:
    metadata = {"labels": {"quote": 'a"b', "app": "web"}, "annotations": {"a.b/c": "note"}}
    given = variables(container(env=[field(path)]), metadata=metadata, serviceAccountName="runner")
    assert given["X"] == expected


def test_an_unknown_field_is_a_configuration_error() -> None:
    with pytest.raises(Failure, match=r"unsupported fieldPath: spec\.nothing") as caught:
        variables(container(env=[field("spec.nothing")]))
    assert caught.value.reason == "CreateContainerConfigError"


@pytest.mark.parametrize(
    ("resource", "divisor", "expected"),
    [
        ("limits.cpu", None, "2"),  # 1500m, rounded up
        ("limits.cpu", "1m", "1500"),
        ("requests.cpu", None, "0"),
        ("limits.memory", "1Mi", "8192"),  # not set: what the node has
        ("requests.memory", "1Mi", "64"),
        ("limits.ephemeral-storage", "1Gi", "100"),
        ("limits.hugepages-2Mi", "1", "0"),
    ],
)
def test_resources_are_divided_and_rounded_up(resource: str, divisor: str | None, expected: str) -> None:
    reference = {"resource": resource, **({"divisor": divisor} if divisor else {})}
    of = container(
        env=[{"name": "X", "valueFrom": {"resourceFieldRef": reference}}],
        resources={"limits": {"cpu": "1500m"}, "requests": {"memory": "64Mi"}},
    )
    assert variables(of)["X"] == expected


def test_resources_of_another_container() -> None:
    other = container(name="other", resources={"limits": {"cpu": "3"}})
    of = container(
        env=[
            {
                "name": "X",
                "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "containerName": "other"}},
            }
        ]
    )
    assert environment(pod(of, other), of, References(), FACTS)["X"] == "3"


def test_whole_objects_come_first_and_single_variables_win() -> None:
    of = container(
        envFrom=[
            {"configMapRef": {"name": "a"}},
            {"prefix": "P_", "secretRef": {"name": "s"}},
            {"configMapRef": {"name": "gone", "optional": True}},
        ],
        env=[{"name": "K", "value": "own $(P_T)"}],
    )
    references = References(
        {"a": config_map("a", K="map", L="l"), "gone": None}, {"s": secret("s", T="token")}
    )
    given = variables(of, references)
    assert (given["K"], given["L"], given["P_T"]) == ("own token", "l", "token")


def test_invalid_variable_names_are_skipped() -> None:
    of = container(envFrom=[{"prefix": "a=", "configMapRef": {"name": "a"}}, {"configMapRef": {"name": "a"}}])
    references = References({"a": config_map("a", **{"k.1-x": "v"})})
    given = variables(of, references)
    assert given["k.1-x"] == "v"
    assert "a=k.1-x" not in given


MISSING = [
    pytest.param(
        {"envFrom": [{"configMapRef": {"name": "x"}}]}, 'configmap "x" not found', id="whole ConfigMap"
    ),
    pytest.param({"envFrom": [{"secretRef": {"name": "x"}}]}, 'secret "x" not found', id="whole Secret"),
    pytest.param(
        {"env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "x", "key": "k"}}}]},
        'configmap "x" not found',
        id="ConfigMap",
    ),
    pytest.param(
        {"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "there", "key": "k"}}}]},
        "couldn't find key k in Secret default/there",
        id="key of a Secret",
    ),
    pytest.param(
        {"env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "there", "key": "k"}}}]},
        "couldn't find key k in ConfigMap default/there",
        id="key of a ConfigMap",
    ),
]


@pytest.mark.parametrize(("fields", "message"), MISSING)
def test_what_is_missing_is_named_as_a_kubelet_names_it(fields: Manifest, message: str) -> None:
    references = References(
        {"there": config_map("there", a="b"), "x": None}, {"there": secret("there"), "x": None}
    )
    with pytest.raises(Failure) as caught:
        variables(container(**fields), references)
    assert (caught.value.reason, caught.value.message) == ("CreateContainerConfigError", message)


@pytest.mark.parametrize("source", ["configMapKeyRef", "secretKeyRef"])
def test_what_is_optional_may_be_missing_and_leaves_the_variable_unset(source: str) -> None:
    env = [{"name": "X", "valueFrom": {source: {"name": "x", "key": "k", "optional": True}}}]
    assert "X" not in variables(container(env=env))


def test_services_are_given_as_links() -> None:
    given = variables(container(), References(services=[API, WEB]))
    assert given["KUBERNETES_SERVICE_PORT_HTTPS"] == "443"
    assert given["KUBERNETES_PORT"] == "tcp://10.96.0.1:443"
    assert given["MY_WEB_SERVICE_HOST"] == "10.96.3.4"
    assert given["MY_WEB_SERVICE_PORT"] == "80"
    assert given["MY_WEB_SERVICE_PORT_GRPC_X"] == "90"
    assert given["MY_WEB_PORT_90_UDP"] == "udp://10.96.3.4:90"
    assert given["MY_WEB_PORT_80_TCP_ADDR"] == "10.96.3.4"


def test_without_links_only_the_api_server_is_given() -> None:
    headless = service("h", "None")
    given = variables(container(), References(services=[API, WEB, headless]), enableServiceLinks=False)
    assert given["KUBERNETES_SERVICE_HOST"] == "10.96.0.1"
    assert not [name for name in given if name.startswith(("MY_WEB", "H_"))]


def test_an_api_server_somewhere_else_is_given_as_its_service() -> None:
    of = container()
    given = environment(pod(of), of, References(), FACTS, api=("127.0.0.1", 6443))
    assert given["KUBERNETES_SERVICE_HOST"] == "127.0.0.1"
    assert given["KUBERNETES_SERVICE_PORT"] == given["KUBERNETES_SERVICE_PORT_HTTPS"] == "6443"
    assert given["KUBERNETES_PORT_6443_TCP"] == "tcp://127.0.0.1:6443"


def test_defaults_a_runtime_adds_give_way_to_what_is_declared() -> None:
    of = container(tty=True, env=[{"name": "PATH", "value": "/opt/bin"}])
    given = environment(pod(of, hostname="me"), of, References(), FACTS, program_path="/nix/bin")
    assert given == {"PATH": "/opt/bin", "HOSTNAME": "me", "HOME": "/root", "TERM": "xterm"}
    plain = container(securityContext={"runAsUser": 1000})
    given = environment(pod(plain), plain, References(), FACTS, program_path="/nix/bin")
    assert given == {"PATH": "/nix/bin", "HOSTNAME": "p", "HOME": "/"}


def test_a_variable_is_read_from_a_file_of_a_volume(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("RANK='3'\n")
    reference = {"volumeName": "v", "path": "out", "key": "RANK"}
    of = container(env=[{"name": "X", "valueFrom": {"fileKeyRef": reference}}])
    given = environment(pod(of), of, References(), FACTS, volume_paths={"v": str(tmp_path)})
    assert given["X"] == "3"
    reference["path"] = "../out"
    with pytest.raises(Failure, match="outside the volume"):
        environment(pod(of), of, References(), FACTS, volume_paths={"v": str(tmp_path)})


@pytest.mark.parametrize("kind", ["pipe", "link", "endless"])
def test_a_pipe_or_link_as_environment_file_is_rejected_without_blocking(tmp_path: Path, kind: str) -> None:
    match kind:
        case "pipe":
            os.mkfifo(tmp_path / "out")
        case "link":
            (tmp_path / "out").symlink_to("/etc/passwd")
        case "endless":
            (tmp_path / "out").write_text("#" * 100_000)
    reference = {"volumeName": "v", "path": "out", "key": "RANK"}
    of = container(env=[{"name": "X", "valueFrom": {"fileKeyRef": reference}}])
    with pytest.raises(Failure, match=r"not a regular file|outside the volume|larger than 65536") as caught:
        environment(pod(of), of, References(), FACTS, volume_paths={"v": str(tmp_path)})
    assert caught.value.reason == "CreateContainerConfigError"


def test_commands_and_arguments_are_expanded() -> None:
    of = container(command=["$(PROGRAM)"], args=["--rank=$(RANK)", "$(HOME)", "$$(RANK)"])
    given = {"PROGRAM": "torchrun", "RANK": "2", "HOME": "/root"}
    # HOME is the runtime's, not the pod's: Kubernetes does not expand it.
    assert own_command(of, given) == (("torchrun",), ("--rank=2", "$(HOME)", "$(RANK)"))
    of["env"] = [{"name": "HOME", "value": "/root"}]
    assert own_command(of, given)[1][1] == "/root"


def test_variables_of_a_mapped_image_are_lowest_and_not_expanded() -> None:
    of = container(command=["$(SPARK_HOME)", "$(OWN)"], env=[{"name": "OWN", "value": "own"}])
    image = {"SPARK_HOME": "/opt/spark", "OWN": "image", "PATH": "/opt/spark/bin"}
    given = environment(pod(of), of, References(), FACTS, image_variables=image)
    assert (given["SPARK_HOME"], given["OWN"], given["PATH"]) == ("/opt/spark", "own", "/opt/spark/bin")
    assert own_command(of, given, image) == (("$(SPARK_HOME)", "own"), ())
