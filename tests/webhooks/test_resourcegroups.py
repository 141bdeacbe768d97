"""Resource groups are read from a file, and again when it changes; what cannot be read changes nothing."""

from pathlib import Path

import orjson
import pytest
import yaml

from tests.webhooks.reviews import review
from volcano.base.clock import VirtualClock
from volcano.kube.api.kinds import POD
from volcano.kube.api.manifest import Manifest
from volcano.webhooks.registration import configurations
from volcano.webhooks.resourcegroups import GroupsFile, RefreshedGroups, read_groups
from volcano.webhooks.review import AdmissionOptions
from volcano.webhooks.rules import mutate

AFFINITY: Manifest = {
    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
}


def text(**group: object) -> str:
    return yaml.safe_dump({"resourceGroups": [{"resourceGroup": "gpu", **group}]})


def steered(groups: GroupsFile, annotations: dict[str, str], namespace: str = "d") -> Manifest:
    pod = {"metadata": {"name": "p", "namespace": namespace, "annotations": annotations}, "spec": {}}
    made = mutate(review(POD, pod, options=AdmissionOptions(resource_groups=groups)))
    assert made is not None
    spec: Manifest = made["spec"]
    return spec


def test_a_changed_file_takes_effect_and_a_broken_one_does_not(tmp_path: Path) -> None:
    file = tmp_path / "admission.yaml"
    file.write_text(text(labels={"pool": "a"}))
    groups = GroupsFile(file)
    mine = {"volcano.sh/resource-group": "gpu"}
    assert steered(groups, mine) == {"nodeSelector": {"pool": "a"}}
    file.write_text(text(labels={"pool": "other"}))
    groups.reload()
    assert steered(groups, mine) == {"nodeSelector": {"pool": "other"}}
    file.write_text("resourceGroups: [1]")
    groups.reload()
    assert steered(groups, mine) == {"nodeSelector": {"pool": "other"}}
    file.unlink()
    groups.reload()
    assert steered(groups, mine) == {"nodeSelector": {"pool": "other"}}


@pytest.mark.parametrize(
    ("match", "annotations", "namespace", "belongs"),
    [
        pytest.param({"key": "namespace", "value": ["ml"]}, {}, "ml", True, id="by namespace"),
        pytest.param({"key": "namespace", "value": ["ml"]}, {}, "web", False, id="another namespace"),
        pytest.param({"key": "annotation", "value": ["a: b"]}, {"a": "b"}, "d", True, id="by annotation"),
        pytest.param(
            {"key": "annotation"}, {"volcano.sh/resource-group": "gpu"}, "d", False, id="not by name then"
        ),
        pytest.param({}, {"volcano.sh/resource-group": "gpu"}, "d", True, id="by name without a key"),
        pytest.param({"value": ["a: b"]}, {"a": "b"}, "d", True, id="by annotation without a key"),
        pytest.param({"key": "label", "value": ["a: b"]}, {"a": "b"}, "d", False, id="an unknown key"),
    ],
)
def test_which_pods_belong(
    tmp_path: Path, match: Manifest, annotations: dict[str, str], namespace: str, belongs: bool
) -> None:
    file = tmp_path / "admission.yaml"
    file.write_text(text(object=match, labels={"pool": "gpu"}))
    assert ("nodeSelector" in steered(GroupsFile(file), annotations, namespace)) is belongs


def test_an_affinity_is_given_as_json_and_the_pods_own_wins(tmp_path: Path) -> None:
    file = tmp_path / "admission.yaml"
    file.write_text(text(affinity=orjson.dumps(AFFINITY).decode()))
    assert steered(GroupsFile(file), {"volcano.sh/resource-group": "gpu"}) == {"affinity": AFFINITY}


@pytest.mark.parametrize(
    ("content", "violation"),
    [
        ("[1]", "a list `resourceGroups`"),
        ("resourceGroups: {}x: [", "no YAML"),
        ("resourceGroups: [1]", r"resourceGroups\[0\]: a mapping"),
        (text(labels=[1]), "labels: a dict"),
        (text(affinity="{"), "affinity: no JSON"),
        (text(affinity="3"), "an affinity was expected"),
    ],
)
def test_what_cannot_be_read_is_said(content: str, violation: str) -> None:
    with pytest.raises(ValueError, match=violation):
        read_groups(content)


def test_refreshed_groups_follow_the_file_after_a_while(tmp_path: Path) -> None:
    file, clock = tmp_path / "admission.yaml", VirtualClock()
    file.write_text(text(labels={"pool": "a"}))
    groups = RefreshedGroups(GroupsFile(file), clock, interval=10.0)
    file.write_text(text(labels={"pool": "other"}))
    assert groups()[0]["labels"] == {"pool": "a"}
    clock.advance(10)
    assert groups()[0]["labels"] == {"pool": "other"}


@pytest.mark.parametrize("assigns_pods", [False, True])
def test_all_pods_are_reviewed_only_where_resource_groups_may_assign_them(assigns_pods: bool) -> None:
    made = configurations(
        authority=b"ca",
        enabled=["/pods/mutate", "/pods/validate"],
        scheduler_names=["volcano"],
        url="https://localhost",
        assigns_pods=assigns_pods,
    )
    conditions = {m["webhooks"][0]["name"]: m["webhooks"][0].get("matchConditions") for _, m in made}
    assert (conditions["mutatepod.volcano.sh"] is None) == assigns_pods
    assert conditions["validatepod.volcano.sh"] is not None
    assert all(m["webhooks"][0]["failurePolicy"] == "Ignore" for _, m in made)
