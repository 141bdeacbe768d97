"""Builders of runs."""

from typing import Any

from volcano.accounting.api import Outcome, Run, Workload

START = 1_800_000_000.0  # 2027-01-15T08:00:00Z
HOUR = 3600.0


def workload(**fields: Any) -> Workload:
    usual: dict[str, Any] = {
        "namespace": "team",
        "queue": "research",
        "user": "jane",
        "job": "train",
        "job_uid": "job-1",
        "task": "worker",
        "gpu_type": "A100",
        "gpus": 1.0,
        "requests": {"cpu": 2.0, "nvidia.com/gpu": 1.0},
    }
    return Workload(**{**usual, **fields})


def run(uid: str = "u1", *, hours: float | None = None, at: float = START, **fields: Any) -> Run:
    """A run of some hours; one that still runs without them."""
    work = {name: fields.pop(name) for name in list(fields) if name in Workload.__dataclass_fields__}
    usual: dict[str, Any] = {
        "uid": uid,
        "pod": f"pod-{uid}",
        "node": "n1",
        "workload": workload(**work),
        "created": at - 60.0,
        "started": at,
        "ended": None if hours is None else at + hours * HOUR,
        "outcome": Outcome.RUNNING if hours is None else Outcome.COMPLETED,
    }
    return Run(**{**usual, **fields})
