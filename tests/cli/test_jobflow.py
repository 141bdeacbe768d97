"""Jobflows and jobtemplates from the command line: create, list, get, describe, delete."""

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import Embedded, Vcctl
from volcano.kube.api.errors import NotFound
from volcano.kube.api.kinds import JOB_FLOW, JOB_TEMPLATE
from volcano.kube.api.manifest import Key

TEMPLATE = """
apiVersion: flow.volcano.sh/v1alpha1
kind: JobTemplate
metadata: {{name: {name}}}
spec:
  tasks:
    - replicas: 1
      name: t
      template: {{spec: {{restartPolicy: Never, containers: [{{name: c, image: i}}]}}}}
"""
FLOW = """
apiVersion: flow.volcano.sh/v1alpha1
kind: JobFlow
metadata: {{name: {name}}}
spec:
  jobRetainPolicy: delete
  flows: [{{name: a}}]
"""


@pytest.fixture
def templates(tmp_path: Path) -> str:
    """A file of two templates, with an empty part between."""
    path = tmp_path / "templates.yaml"
    path.write_text(TEMPLATE.format(name="a") + "---\n---" + TEMPLATE.format(name="b-longer"))
    return str(path)


@pytest.fixture
def flow(tmp_path: Path) -> str:
    path = tmp_path / "flow.yaml"
    path.write_text(FLOW.format(name="pipeline"))
    return str(path)


def test_every_object_of_a_file_is_created_and_deleted(
    vcctl: Vcctl, embedded: Embedded, namespace: str, templates: str
) -> None:
    created = vcctl("jobtemplate", "create", "-f", templates)
    assert created.code == 0
    assert created.lines == [
        f"Created JobTemplate: {namespace}/a",
        f"Created JobTemplate: {namespace}/b-longer",
    ]
    assert embedded.get(JOB_TEMPLATE, Key(namespace, "a"))["spec"]["tasks"][0]["name"] == "t"
    deleted = vcctl("jobtemplate", "delete", "-f", templates)
    assert deleted.lines == [
        f"Deleted JobTemplate: {namespace}/a",
        f"Deleted JobTemplate: {namespace}/b-longer",
    ]
    with pytest.raises(NotFound):
        embedded.get(JOB_TEMPLATE, Key(namespace, "a"))


def test_objects_without_a_namespace_are_deleted_where_the_flag_says(
    vcctl: Vcctl, namespace: str, templates: str
) -> None:
    vcctl("jobtemplate", "create", "-f", templates)
    elsewhere = vcctl("jobtemplate", "delete", "-f", templates, "-n", "default")
    assert (elsewhere.code, elsewhere.out) == (1, "")
    assert vcctl("jobtemplate", "delete", "-f", templates, "-n", namespace).code == 0


def test_one_refusal_does_not_stop_the_rest_and_fails_in_the_end(
    vcctl: Vcctl, namespace: str, templates: str
) -> None:
    vcctl("jobtemplate", "create", "-f", templates)
    vcctl("jobtemplate", "delete", "a")
    result = vcctl("jobtemplate", "create", "-f", templates)
    assert (result.code, result.out) == (1, f"Created JobTemplate: {namespace}/a\n")
    assert result.err.startswith("Failed to create JobTemplate: ")
    assert '"b-longer" already exists' in result.err


def test_a_parse_error_stops_everything(vcctl: Vcctl, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(FLOW.format(name="x") + "---\na: [")
    result = vcctl("jobflow", "create", "-f", str(tmp_path / "bad.yaml"))
    assert (result.code, result.out) == (1, "")
    assert "bad.yaml: not valid YAML" in result.err


def test_a_file_of_the_other_kind_is_refused(vcctl: Vcctl, templates: str) -> None:
    result = vcctl("jobflow", "create", "-f", templates)
    assert (result.code, result.out) == (1, "")
    assert "is a JobTemplate of flow.volcano.sh/v1alpha1; a JobFlow of" in result.err


def test_columns_are_four_wider_than_their_longest_entry(
    vcctl: Vcctl, embedded: Embedded, namespace: str, templates: str, flow: str
) -> None:
    vcctl("jobtemplate", "create", "-f", templates)
    vcctl("jobflow", "create", "-f", flow)
    width = max(len("Namespace"), len(namespace)) + 4
    assert vcctl("jobtemplate", "list").lines == [
        f"{'Name':12}{'Namespace':{width}}",
        f"{'a':12}{namespace:{width}}",
        f"{'b-longer':12}{namespace:{width}}",
    ]
    embedded.until(
        JOB_FLOW,
        Key(namespace, "pipeline"),
        lambda item: bool(item.get("status", {}).get("state", {}).get("phase")),
    )
    header, row = vcctl("jobflow", "list").lines
    assert header.split() == ["Name", "Namespace", "Phase", "Age"]
    assert row.startswith(f"{'pipeline':12}{namespace:{width}}")
    assert row.split()[2] in ("Pending", "Running")


def test_get_shows_one_and_suggests_the_near_name(vcctl: Vcctl, namespace: str, flow: str) -> None:
    vcctl("jobflow", "create", "-f", flow)
    assert vcctl("jobflow", "get", "-N", "pipeline").lines[1].split()[:2] == ["pipeline", namespace]
    assert vcctl("jobflow", "get", "-n", "pipeline", "-o", "name").out == "jobflow.flow.volcano.sh/pipeline\n"
    wrong = vcctl("jobflow", "get", "-N", "pipelin")
    assert (wrong.code, wrong.out) == (3, "")
    assert "did you mean 'pipeline'?" in wrong.err
    assert vcctl("jobflow", "get").code == 2


def test_describe_prints_one_or_all_without_managed_fields(
    vcctl: Vcctl, namespace: str, templates: str
) -> None:
    assert vcctl("jobtemplate", "describe").out == "No resources found\n"
    vcctl("jobtemplate", "create", "-f", templates)
    one = yaml.safe_load(vcctl("jobtemplate", "describe", "-N", "a").out)
    assert (one["metadata"]["name"], "managedFields" in one["metadata"]) == ("a", False)
    assert json.loads(vcctl("jobtemplate", "describe", "a", "-o", "json").out)["kind"] == "JobTemplate"
    first, second = vcctl("jobtemplate", "describe", "-n", namespace).out.split("\n\n")
    names = [yaml.safe_load(text)["metadata"]["name"] for text in (first, second)]
    assert names == ["a", "b-longer"]
    wrong = vcctl("jobtemplate", "describe", "-o", "xml")
    assert (wrong.code, wrong.err) == (2, "Failed to describe jobtemplate: Unsupported format: xml\n")


@pytest.mark.parametrize("noun", ["jobflow", "jobtemplate"])
def test_create_and_delete_need_something_to_go_by(vcctl: Vcctl, noun: str) -> None:
    assert vcctl(noun, "create").code == 2
    assert vcctl(noun, "delete").code == 2
    assert vcctl(noun, "create", "-f", "gone.yaml").code == 1
