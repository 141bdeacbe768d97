"""Codes of diagnoses: a generated table per class."""

from tools.docs.markdown import code, page, table
from volcano.scheduler.engine.diagnosis.codes import MEANINGS, DiagnosisClass

CLASSES = {
    DiagnosisClass.NEVER: "No node could host it, even if the cluster were empty and all nodes in order. Waiting does "
    "not help: change the job, or add nodes.",
    DiagnosisClass.CONFIG: "Something is missing, closed or malformed. Correct it.",
    DiagnosisClass.POLICY: "A limit or an order that was configured holds the job back.",
    DiagnosisClass.CAPACITY: "It fits once others finish.",
    DiagnosisClass.IN_PROGRESS: "Something is under way. Wait a moment.",
}


def diagnoses_page() -> str:
    return page(
        "Diagnoses",
        "Every job that waits has a diagnosis with one of these codes. Of several reasons the one whose class comes "
        "first here counts. The code is the reason of the PodGroup's condition `Unschedulable` (its transition time "
        "says since when), the label `code` of the metric `volcano_pending_jobs`, and part of what `vcctl explain` "
        "prints; see [Find out why a job waits](../how-to/pending-job.md).",
        *(
            f"## {each}\n\n{CLASSES[each]}\n\n"
            + table(["code", "meaning"], ((code(found), text) for found, text in meanings.items()))
            for each, meanings in MEANINGS.items()
        ),
        "A pod for which no node is left gets the code of the nodes that are closest to being usable: with nine nodes "
        "that are too small and one that is full, the job waits for capacity.",
    )
