"""Pod Security admission: levels and versions by labels, warnings, audit annotations, exemptions."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.apiserver.admission import pod_security_cases
from tests.apiserver.admission.pod_security_cases import GOOD, LEVELS, VERSIONS
from tests.apiserver.servers import Answered, TestServer
from tests.k8s.control_plane.cluster import RealCluster
from volcano.apiserver.admission.podsecurity.policy import (
    ConfigurationError,
    LevelVersion,
    PodSecurityConfiguration,
    Policy,
    default_configuration,
    policy_of,
    read_configuration,
)
from volcano.apiserver.interfaces import User
from volcano.kube.api import crds
from volcano.kube.api.manifest import Manifest

NAMESPACES = "/api/v1/namespaces"
PODS = f"{NAMESPACES}/team/pods"
LABEL = "pod-security.kubernetes.io/"
MERGE = "application/merge-patch+json"
HOST_PATH: dict[str, Any] = {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}


async def server_with(configuration: PodSecurityConfiguration | None = None, **labels: str) -> TestServer:
    """A server with the namespace `team`; labels are written with underscores."""
    tokens = {"joe": User("joe", ("system:masters",))}
    server = await TestServer(pod_security=configuration, tokens=tokens).start()
    given = {f"{LABEL}{name.replace('_', '-')}": value for name, value in labels.items()}
    await server.made(NAMESPACES, {"metadata": {"name": "team", "labels": given}})
    return server


async def create(
    server: TestServer, target: str = PODS, name: str = "p", token: str = "the-admin", **spec: Any
) -> Answered:
    body = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
    return await server.post(target, body, token=token)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("version", VERSIONS)
def test_pods_are_rejected_as_by_a_real_server(level: str, version: str) -> None:
    recorded = json.loads(pod_security_cases.RECORDED.read_text())
    policy = LevelVersion(level, version)
    for case in pod_security_cases.cases():
        violations = policy.violations(case.pod["metadata"], case.pod["spec"])
        text = ", ".join(map(str, violations))
        ours = f'pods "p" is forbidden: violates PodSecurity "{policy}": {text}' if violations else ""
        assert ours == recorded[f"{policy} {case.name}"], case.name


@pytest.mark.k8s
def test_the_recorded_answers_are_those_of_a_real_server(real_apiserver: RealCluster) -> None:
    assert pod_security_cases.answers(real_apiserver) == json.loads(pod_security_cases.RECORDED.read_text())


async def test_a_namespace_enforces_its_level() -> None:
    server = await server_with(enforce="baseline")
    refused = await create(server, **HOST_PATH)
    assert (refused.code, refused.json["reason"]) == (403, "Forbidden")
    assert refused.message == (
        'pods "p" is forbidden: violates PodSecurity "baseline:latest": hostPath volumes (volume "root")'
    )
    assert (await create(server)).code == 201
    assert (await create(server, f"{NAMESPACES}/default/pods", **HOST_PATH)).code == 201


async def test_dry_run_and_ephemeral_containers_are_checked_too() -> None:
    server = await server_with(enforce="baseline")
    assert (await create(server, f"{PODS}?dryRun=All", **HOST_PATH)).code == 403
    assert (await create(server)).code == 201
    debugger = {"name": "d", "image": "i", "securityContext": {"privileged": True}}
    patch = {"spec": {"ephemeralContainers": [debugger]}}
    refused = await server.ask(
        "PATCH", f"{PODS}/p/ephemeralcontainers", patch, content_type="application/strategic-merge-patch+json"
    )
    assert refused.code == 403
    assert 'privileged (container "d" must not set securityContext.privileged=true)' in refused.message


async def test_a_running_pod_may_change_in_what_is_not_checked() -> None:
    server = await server_with()
    assert (await create(server, **HOST_PATH)).code == 201
    stricter = {"metadata": {"labels": {f"{LABEL}enforce": "baseline"}}}
    assert (await server.ask("PATCH", f"{NAMESPACES}/team", stricter, content_type=MERGE)).code == 200
    labelled = {"metadata": {"labels": {"a": "b"}}}
    assert (await server.ask("PATCH", f"{PODS}/p", labelled, content_type=MERGE)).code == 200
    status = {"status": {"phase": "Running"}}
    assert (await server.ask("PATCH", f"{PODS}/p/status", status, content_type=MERGE)).code == 200
    image = {"spec": {"containers": [{"name": "c", "image": "other"}]}}
    refused = await server.ask(
        "PATCH", f"{PODS}/p", image, content_type="application/strategic-merge-patch+json"
    )
    assert refused.code == 403


async def test_warnings_are_sent_and_audit_violations_recorded() -> None:
    server = await server_with(
        warn="restricted", audit="baseline", enforce="privileged", warn_version="v1.20"
    )
    created = await create(server, **HOST_PATH)
    assert created.code == 201
    assert (
        'would violate PodSecurity \\"restricted:v1.20\\": allowPrivilegeEscalation != false'
        in created.headers["Warning"]
    )
    annotations = json.loads(server.audit[-1])["annotations"]
    assert annotations == {
        f"{LABEL}enforce-policy": "privileged:latest",
        f"{LABEL}audit-violations": 'would violate PodSecurity "baseline:latest": hostPath volumes (volume "root")',
    }


async def test_a_rejection_is_audited_with_its_policy() -> None:
    server = await server_with(enforce="baseline", audit="baseline")
    assert (await create(server, **HOST_PATH)).code == 403
    annotations = json.loads(server.audit[-1])["annotations"]
    assert annotations[f"{LABEL}enforce-policy"] == "baseline:latest"
    assert "hostPath volumes" in annotations[f"{LABEL}audit-violations"]


TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "i"}], **HOST_PATH},
}
SELECTED = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
RUN_ONCE = {"template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}}
WORKLOADS: list[tuple[str, Manifest]] = [
    ("/apis/apps/v1/namespaces/team/deployments", {"spec": SELECTED}),
    ("/apis/apps/v1/namespaces/team/replicasets", {"spec": SELECTED}),
    ("/apis/apps/v1/namespaces/team/daemonsets", {"spec": SELECTED}),
    ("/apis/apps/v1/namespaces/team/statefulsets", {"spec": SELECTED}),
    ("/api/v1/namespaces/team/replicationcontrollers", {"spec": {"template": TEMPLATE}}),
    ("/api/v1/namespaces/team/podtemplates", {"template": TEMPLATE}),
    ("/apis/batch/v1/namespaces/team/jobs", {"spec": RUN_ONCE}),
    (
        "/apis/batch/v1/namespaces/team/cronjobs",
        {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": RUN_ONCE}}},
    ),
]


@pytest.mark.parametrize(("target", "body"), WORKLOADS)
async def test_workloads_are_accepted_with_a_warning(target: str, body: Manifest) -> None:
    server = await server_with(enforce="baseline")  # which warns about workloads, too
    created = await server.post(target, {"metadata": {"name": "w"}, **body})
    assert created.code == 201, created.body
    expected = 'would violate PodSecurity \\"baseline:latest\\": hostPath volumes (volume \\"root\\")'
    assert expected in created.headers["Warning"]


async def test_the_tasks_of_a_volcano_job_are_accepted_with_a_warning() -> None:
    server = await server_with(enforce="baseline")
    for crd in crds.load():
        await server.made("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    tasks = [
        {"name": "good", "replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}},
        {"name": "bad", "replicas": 1, "template": TEMPLATE},
    ]
    body = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"tasks": tasks},
    }
    created = await server.post("/apis/batch.volcano.sh/v1alpha1/namespaces/team/jobs", body)
    assert created.code == 201, created.body
    warning = created.headers["Warning"]
    assert 'task \\"bad\\": would violate PodSecurity \\"baseline:latest\\": hostPath volumes' in warning
    assert "good" not in warning


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            {"enforce": "strict"},
            'metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "strict": '
            "must be one of privileged, baseline, restricted",
        ),
        (
            {"warn-version": "1.2"},
            'metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: "1.2": '
            'must be "latest" or "v1.x"',
        ),
    ],
)
async def test_wrong_labels_are_rejected(labels: dict[str, str], message: str) -> None:
    server = await server_with()
    wrong = {f"{LABEL}{name}": value for name, value in labels.items()}
    refused = await server.post(NAMESPACES, {"metadata": {"name": "other", "labels": wrong}})
    assert (refused.code, message in refused.message) == (422, True), refused.message
    patch = {"metadata": {"labels": wrong}}
    assert (await server.ask("PATCH", f"{NAMESPACES}/team", patch, content_type=MERGE)).code == 422


async def test_a_stricter_level_warns_about_the_pods_that_exist() -> None:
    server = await server_with()
    for name in ("b", "a", "c"):
        assert (await create(server, name=name, **HOST_PATH)).code == 201
    assert (await create(server, name="net", hostNetwork=True)).code == 201
    assert (await create(server, name="fine")).code == 201
    patch = {"metadata": {"labels": {f"{LABEL}enforce": "baseline"}}}
    changed = await server.ask("PATCH", f"{NAMESPACES}/team", patch, content_type=MERGE)
    assert changed.code == 200
    warnings = changed.headers["Warning"]
    assert (
        'existing pods in namespace \\"team\\" violate the new PodSecurity enforce level \\"baseline:latest\\"'
        in warnings
    )
    assert "a (and 2 other pods): hostPath volumes" in warnings
    assert "net: host namespaces" in warnings
    again = await server.ask(
        "PATCH", f"{NAMESPACES}/team", {"metadata": {"labels": {"x": "y"}}}, content_type=MERGE
    )
    assert "Warning" not in again.headers


async def test_the_configuration_sets_the_level_of_namespaces_without_labels() -> None:
    server = await server_with(default_configuration("baseline", ["kube-system"]))
    assert (await create(server, **HOST_PATH)).code == 403
    assert (await create(server, f"{NAMESPACES}/kube-system/pods", **HOST_PATH)).code == 201
    patch = {"metadata": {"labels": {f"{LABEL}enforce": "privileged"}}}
    await server.ask("PATCH", f"{NAMESPACES}/team", patch, content_type=MERGE)
    allowed = await create(server, **HOST_PATH)
    assert allowed.code == 201
    labelled = {"metadata": {"labels": {f"{LABEL}enforce": "restricted"}}}
    exempt = await server.ask("PATCH", f"{NAMESPACES}/kube-system", labelled, content_type=MERGE)
    assert (
        'namespace \\"kube-system\\" is exempt from Pod Security, '
        "and the policy (enforce=restricted:latest) will be ignored" in exempt.headers["Warning"]
    )


async def test_users_and_runtime_classes_may_be_exempt() -> None:
    text = """
apiVersion: pod-security.admission.config.k8s.io/v1
kind: PodSecurityConfiguration
defaults: {enforce: restricted, enforce-version: v1.30}
exemptions: {usernames: [joe], runtimeClasses: [sandbox]}
"""
    server = await server_with(read_configuration(text))
    assert (await create(server)).code == 403
    assert (await create(server, token="joe")).code == 201
    assert json.loads(server.audit[-1])["annotations"] == {f"{LABEL}exempt": "user"}
    assert (await create(server, name="q", runtimeClassName="sandbox")).code == 201


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "is not YAML"),
        ("kind: Pod", "must be a PodSecurityConfiguration"),
        ("kind: PodSecurityConfiguration\napiVersion: v1", "apiVersion 'v1' must be"),
        (
            "kind: PodSecurityConfiguration\napiVersion: pod-security.admission.config.k8s.io/v1\ndefaults: 5",
            "defaults",
        ),
        (
            "kind: PodSecurityConfiguration\napiVersion: pod-security.admission.config.k8s.io/v1\n"
            "defaults: {enforce: strict}",
            "must be one of privileged, baseline, restricted",
        ),
        (
            "kind: PodSecurityConfiguration\napiVersion: pod-security.admission.config.k8s.io/v1\n"
            "defaults: {forbid: baseline}",
            "defaults.forbid is unknown",
        ),
        (
            "kind: PodSecurityConfiguration\napiVersion: pod-security.admission.config.k8s.io/v1\n"
            "exemptions: {usernames: joe}",
            "exemptions.usernames must be a list",
        ),
    ],
)
def test_a_wrong_configuration_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read_configuration(text)


def test_enforcing_implies_a_warning_unless_one_is_chosen() -> None:
    restricted = LevelVersion("restricted", "v1.30")
    implied, _ = policy_of({f"{LABEL}enforce": "restricted", f"{LABEL}enforce-version": "v1.30"}, Policy())
    assert implied.warn == restricted
    chosen, _ = policy_of({f"{LABEL}enforce": "restricted", f"{LABEL}warn": "baseline"}, Policy())
    assert chosen.warn == LevelVersion("baseline")


CONTEXTS = st.fixed_dictionaries(
    {},
    optional={
        "privileged": st.booleans(),
        "runAsNonRoot": st.booleans(),
        "runAsUser": st.integers(0, 1),
        "allowPrivilegeEscalation": st.booleans(),
        "seccompProfile": st.sampled_from([{"type": "Unconfined"}, {"type": "RuntimeDefault"}]),
        "capabilities": st.sampled_from([{"add": ["SYS_ADMIN"]}, {"drop": ["ALL"]}, {"add": ["CHOWN"]}]),
        "procMount": st.sampled_from(["Default", "Unmasked"]),
    },
)


@given(CONTEXTS, CONTEXTS, st.booleans(), st.sampled_from(VERSIONS))
def test_what_restricted_allows_baseline_allows(
    pod: Manifest, container: Manifest, host_network: bool, version: str
) -> None:
    spec = {
        "securityContext": {
            k: v for k, v in pod.items() if k in ("runAsNonRoot", "runAsUser", "seccompProfile")
        },
        "containers": [{"name": "c", "securityContext": container}],
        "hostNetwork": host_network,
    }
    if not LevelVersion("restricted", version).violations({}, spec):
        assert not LevelVersion("baseline", version).violations({}, spec)
    if container == GOOD and not host_network:
        assert not LevelVersion("restricted", version).violations({}, spec)
