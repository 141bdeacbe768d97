"""Sentences: a diagnosis in one sentence, for people who did not write the scheduler."""

from volcano.model.resources import shown
from volcano.scheduler.engine.diagnosis import Amount, Diagnosis
from volcano.scheduler.engine.diagnosis.codes import CLASSES, MEANINGS, Code, DiagnosisClass

BEGINNINGS = {
    DiagnosisClass.NEVER: "can never start as things are",
    DiagnosisClass.CONFIG: "cannot start until something is corrected",
    DiagnosisClass.POLICY: "is held back by a limit or an order",
    DiagnosisClass.CAPACITY: "waits for capacity",
    DiagnosisClass.IN_PROGRESS: "is about to start",
}
# Codes whose messages say more than their meaning.
BY_MESSAGE = {
    Code.MALFORMED, Code.POD_GROUP_NOT_FOUND, Code.QUEUE_NOT_FOUND, Code.QUEUE_CLOSED, Code.QUEUE_NOT_LEAF,
    Code.QUEUE_TREE_BROKEN, Code.UNKNOWN_TIER, Code.SCHEDULING_GATED, Code.VOLUME_CLAIM_PROBLEM,
    Code.DEVICE_CLAIM_PROBLEM, Code.PLUGIN_FAILED, Code.REJECTED_BY_PLUGIN, Code.TOPOLOGY_FULL,
    Code.TOPOLOGY_LIMIT, Code.WAITING_FOR_PODS, Code.CLUSTER_TOO_SMALL, Code.QUEUE_ORDER,
    Code.LOW_PRIORITY,
}  # fmt: skip
ON_A_NODE = {Code.NODE_TOO_SMALL, Code.INSUFFICIENT_RESOURCES}


def summary(name: str, diagnosis: Diagnosis) -> str:
    """`train waits for capacity: each pod needs nvidia.com/gpu 8, and no node has more than 4 free.`"""
    return f"{name} {BEGINNINGS[diagnosis.diagnosis_class]}: {_detail(diagnosis)}."


def meaning(code: Code) -> str:
    return MEANINGS[CLASSES[code]][code]


def _detail(diagnosis: Diagnosis) -> str:
    code = diagnosis.code
    lacking = next((each for each in diagnosis.amounts if each.missing > 0), None)
    if code in ON_A_NODE and lacking is not None:
        return _on_a_node(diagnosis, lacking)
    if code is Code.INSUFFICIENT_RESOURCES and diagnosis.amounts:
        return "the nodes with enough of one resource lack another, or are too few for the whole gang"
    if lacking is not None and lacking.limit is not None and diagnosis.queue:
        what = f"it asks for {_shown(lacking, lacking.need)}, and queue {diagnosis.queue} may take"
        return f"{what} {_shown(lacking, lacking.have)} more of {shown(lacking.resource, lacking.limit)}"
    if code is Code.CLUSTER_OVERCOMMITTED and lacking is not None and lacking.limit is not None:
        left = f"{_shown(lacking, lacking.have)} of {shown(lacking.resource, lacking.limit)}"
        return f"it needs {_shown(lacking, lacking.need)}, and jobs that were admitted before leave {left}"
    if code in BY_MESSAGE:
        first = diagnosis.message.partition("; 0/")[0].strip()
        return first.rstrip(".").removeprefix("impossible: ")
    text = meaning(code).rstrip(".")
    return text[0].lower() + text[1:]


def _on_a_node(diagnosis: Diagnosis, lacking: Amount) -> str:
    need = f"each pod needs {_shown(lacking, lacking.need)}"
    if diagnosis.code is Code.NODE_TOO_SMALL and lacking.limit is not None:
        return f"{need}, and the largest node has {shown(lacking.resource, lacking.limit)}"
    if lacking.have <= 0:
        return f"{need}, and no node that could be used has any free"
    return (
        f"{need}, and no node that could be used has more than {shown(lacking.resource, lacking.have)} free"
    )


def _shown(amount: Amount, value: float) -> str:
    return f"{amount.resource} {shown(amount.resource, max(value, 0.0))}"
