"""The switches a plugin may be configured with, under the reference's irregular names, and what each turns off."""

from collections.abc import Mapping

# Switch → the questions a plugin is not asked when it is false. All are true by default.
QUESTIONS: Mapping[str, tuple[str, ...]] = {
    "enableJobOrder": ("job_order",),
    "enableJobReady": ("job_short",),
    "enableJobPipelined": ("job_pipelined",),
    "enableTaskOrder": ("task_order",),
    "enablePreemptable": ("preemptable",),
    "enableReclaimable": ("reclaimable",),
    "enablePreemptive": ("preemptive",),
    "enableQueueOrder": ("queue_order",),
    "enablePredicate": ("pre_predicate", "reject_nodes", "reject_nodes_now"),
    "enableBestNode": ("best_node",),
    "enableNodeOrder": ("score_nodes", "score_nodes_together"),
    "enableJobEnqueued": ("job_enqueueable", "job_enqueued"),
    "enabledVictim": ("victim_tasks",),
    "enableJobStarving": ("job_starving",),
    "enabledOverused": ("overused",),
    "enabledAllocatable": ("allocatable", "why_not_allocatable"),
    "enabledSubJobReady": ("sub_job_short",),
    "enabledSubJobOrder": ("sub_job_order",),
}

# Switches of Volcano whose hooks do not exist here: accepted without effect.
WITHOUT_EFFECT = (
    "enableTargetJob",
    "enableReservedNodes",
    "enabledHyperNodeOrder",
    "enabledHyperNodeGradient",
    "enabledSubJobPipelined",
)

# Switches that turn something on; off unless said.
MODES = ("enableHierarchy", "enabledClusterOrder")

SWITCHES = (*QUESTIONS, *MODES, *WITHOUT_EFFECT)


def disabled(switches: Mapping[str, bool]) -> frozenset[str]:
    """The questions that these switches, as given in a file, turn off."""
    return frozenset(
        question
        for switch, questions in QUESTIONS.items()
        if switches.get(switch) is False
        for question in questions
    )
