"""Documents are rendered from the types of results, in one place."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from volcano.scheduler.history.records import Evicted
from volcano.services.document import document


@dataclass(frozen=True)
class Part:
    first: int
    node_name: str = ""


@dataclass(frozen=True, kw_only=True)
class Result:
    KIND: ClassVar = "Result"
    FIRST: ClassVar[tuple[str, ...]] = ()
    pod_group: str
    class_: str = ""
    estimate: Part | None
    by_status: Mapping[str, Part] = field(default_factory=dict)
    part: Part | None = field(default=None, metadata={"inline": True})
    rows: tuple[Part, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RowsFirst(Result):
    FIRST: ClassVar = ("rows", "class_")


def test_names_are_spelled_as_in_kubernetes_and_the_kind_begins() -> None:
    found = document(Result(pod_group="g", class_="POLICY", estimate=Part(1, "n1")))
    assert found == {
        "kind": "Result", "podGroup": "g", "class": "POLICY", "estimate": {"first": 1, "nodeName": "n1"},
    }  # fmt: skip
    assert next(iter(found)) == "kind"


def test_fields_with_their_default_are_omitted_and_others_are_there_also_when_empty() -> None:
    assert document(Result(pod_group="", estimate=None)) == {
        "kind": "Result",
        "podGroup": "",
        "estimate": None,
    }


def test_keys_of_maps_stay_as_they_are() -> None:
    found = document(Result(pod_group="g", estimate=None, by_status={"not_ready": Part(2)}))
    assert found["byStatus"] == {"not_ready": {"first": 2}}


def test_an_inline_field_is_part_of_the_document_around_it() -> None:
    found = document(Result(pod_group="g", estimate=None, part=Part(3, "n2"), rows=(Part(4),)))
    assert list(found) == ["kind", "podGroup", "estimate", "first", "nodeName", "rows"]


def test_a_class_may_name_the_fields_that_begin_its_document() -> None:
    found = document(RowsFirst(pod_group="g", class_="NEVER", estimate=None, rows=(Part(1),)))
    assert list(found) == ["kind", "rows", "class", "podGroup", "estimate"]


def test_records_of_the_scheduler_are_rendered_as_it_serves_them() -> None:
    assert document(Evicted("default/p", "default/j", "n1", "preempt", beneficiary_queue="q")) == {
        "pod": "default/p", "job": "default/j", "node": "n1", "action": "preempt", "beneficiaryQueue": "q",
    }  # fmt: skip
