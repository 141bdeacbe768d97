"""Switches of a configured plugin, under Volcano's irregular names, and the hooks that each turns off."""

from collections.abc import Mapping

# Hooks that are not called when the switch is false. All are true by default.
HOOKS_OF_SWITCH: Mapping[str, tuple[str, ...]] = {
    "enableJobOrder": ("job_order",),
    "enableJobReady": ("job_short",),
    "enableJobPipelined": ("job_pipelined",),
    "enableTaskOrder": ("task_order",),
    "enablePreemptable": ("preemptable",),
    "enableReclaimable": ("reclaimable", "reclaim_opened", "reclaim_allowed", "reclaim_closed"),
    "enablePreemptive": ("preemptive", "below_deserved"),
    "enableQueueOrder": ("queue_order",),
    "enablePredicate": (
        "pre_predicate",
        "reject_nodes",
        "reject_nodes_now",
        "node_capacity",
    ),
    "enableNodeOrder": ("score_nodes", "score_nodes_together"),
    "enableJobEnqueued": ("job_enqueueable", "job_enqueued"),
    "enabledVictim": ("victim_tasks",),
    "enableJobStarving": ("job_starving",),
    "enabledOverused": ("overused",),
    "enabledAllocatable": ("allocatable", "why_not_allocatable"),
    "enabledSubJobReady": ("sub_job_short",),
    "enabledSubJobOrder": ("sub_job_order",),
    "enabledHyperNodeOrder": ("score_domains",),
}

# Switches of Volcano whose hooks do not exist here: accepted without effect.
WITHOUT_EFFECT = (
    "enableTargetJob",
    "enableBestNode",
    "enableReservedNodes",
    "enabledHyperNodeGradient",
    "enabledSubJobPipelined",
)

# Switches that turn a mode on; off by default.
MODES = ("enableHierarchy", "enabledClusterOrder")

SWITCHES = (*HOOKS_OF_SWITCH, *MODES, *WITHOUT_EFFECT)


def disabled(switches: Mapping[str, bool]) -> frozenset[str]:
    """Returns the hooks that the given switches turn off."""
    return frozenset(
        hook for switch, hooks in HOOKS_OF_SWITCH.items() if switches.get(switch) is False for hook in hooks
    )
