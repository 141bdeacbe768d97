"""The budget annotation, and who may write it."""

import re

import pytest

from tests.webhooks.reviews import Objects
from volcano.accounting.budgets import Budget, parse_budgets
from volcano.kube.api.kinds import QUEUE
from volcano.kube.api.manifest import Key
from volcano.webhooks.review import AdmissionRequest
from volcano.webhooks.rules import validate


def test_budgets_are_resource_seconds_of_a_period() -> None:
    found = parse_budgets("nvidia.com/gpu=1000h/month, memory=64Gih/day,cpu=1.5kh/week")
    assert [(each.resource, each.limit, each.period) for each in found] == [
        ("nvidia.com/gpu", 3_600_000.0, "month"),
        ("memory", 64 * 2**30 * 3600.0, "day"),
        ("cpu", 1500 * 3600.0, "week"),
    ]
    assert found[0] == Budget("nvidia.com/gpu", 3_600_000.0, "month", "nvidia.com/gpu=1000h/month")


WRONG = [
    ("", "it is empty; such as nvidia.com/gpu=1000h/month"),
    ("gpu", "'gpu' should be RESOURCE=AMOUNTh/PERIOD, such as nvidia.com/gpu=1000h/month"),
    ("gpu=1000/month", "'gpu=1000/month' should be RESOURCE=AMOUNTh/PERIOD"),
    ("gpu=1000h/year", "the period is 'year'; choose from day, week, month"),
    ("gpu=0h/day", "the amount must be greater than 0"),
    ("gpu=1.2.3h/day", "'1.2.3' is no amount such as 1000 or 64Gi"),
    ("gpu=1h/day,gpu=2h/day", "gpu has two budgets for a day; keep one"),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_a_wrong_budget_is_explained(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_budgets(text)


def violations(**annotations: str) -> list[str]:
    names = {f"volcano.sh/{name.replace('_', '-')}": value for name, value in annotations.items()}
    queue = {"metadata": {"name": "q", "annotations": names}, "spec": {"weight": 1}}
    request = AdmissionRequest("CREATE", QUEUE, Key("", "q"), queue, None, Objects())
    return [str(each) for each in validate(request)]


def test_admission_rejects_a_wrong_budget_and_an_unknown_action() -> None:
    assert violations(budget="gpu=10h/day", budget_action="block") == []
    (wrong,) = violations(budget="gpu=10h/fortnight")
    assert wrong.startswith("metadata.annotations[volcano.sh/budget]: 'gpu=10h/fortnight': the period is")
    (unknown,) = violations(budget_action="explode")
    assert (
        unknown
        == "metadata.annotations[volcano.sh/budget-action]: 'explode' is unknown; choose from warn, block"
    )
