"""Table of commands: words, module, help."""

from typing import NamedTuple

HIDDEN = ""  # help of commands that only programs use


class Command(NamedTuple):
    """One leaf of the command tree. `function` names two functions of the module: itself and
    `<function>_arguments`."""

    words: str
    module: str
    help: str
    function: str = "run"
    failure: str = ""  # begin of error messages, where `Failed to LEAF GROUP` is not a sentence


GROUPS = {
    "job": "create, list, follow and manage jobs",
    "queue": "create, list and manage queues",
    "jobflow": "create, list and delete jobflows",
    "jobtemplate": "create, list and delete jobtemplates",
    "reservation": "reserve nodes, and list what is reserved",
    "pod": "list the pods of jobs",
    "podgroup": "show the gangs of jobs and pods",
    "explain": "say why jobs wait, and why pods are where they are",
}

VCCTL: tuple[Command, ...] = (
    Command("job run", "job.manage", "create a job from flags or a file", "run"),
    Command("job list", "job.list", "list jobs", "run"),
    Command("job view", "job.view", "show a job and its events", "run"),
    Command(
        "job show",
        "job.history",
        "show what a job used and how its pods ended, also of a deleted job",
        "show",
        failure="cannot show job",
    ),
    Command("job suspend", "job.manage", "stop a job so that it can be resumed", "suspend"),
    Command("job resume", "job.manage", "resume a suspended job", "resume"),
    Command("job delete", "job.manage", "delete a job", "delete"),
    Command("job requeue", "job.control", "restart a job from the beginning", "requeue"),
    Command("job hold", "job.control", "keep a waiting job from starting", "hold"),
    Command("job release", "job.control", "let a held job start", "release"),
    Command("job update", "job.control", "change priority, queue or size of a job", "update"),
    Command(
        "job logs",
        "job.logs",
        "print the logs of a job's pods, interleaved",
        failure="cannot read logs of job",
    ),
    Command("job wait", "job.wait", "wait until a job reaches a phase", failure="cannot wait for job"),
    Command(
        "job describe",
        "job.describe",
        "show a job with its gang, pods and events on one screen",
        failure="cannot describe job",
    ),
    Command(
        "job outputs",
        "job.outputs",
        "copy the files that a job's pods wrote to $VOLCANO_OUTPUT",
        failure="cannot copy outputs of job",
    ),
    Command("queue create", "queue.manage", "create a queue", "create"),
    Command("queue delete", "queue.manage", "delete a queue", "delete"),
    Command("queue operate", "queue.manage", "open, close or update a queue", "operate"),
    Command("queue update", "queue.manage", "change a queue's weight, parent or resources", "update"),
    Command("queue list", "queue.list", "list queues", "run"),
    Command("queue get", "queue.list", "show one queue", "get"),
    Command(
        "queue tree",
        "queue.tree",
        "show the hierarchy of queues with their shares",
        failure="cannot show the queue tree",
    ),
    Command("jobflow create", "jobflow", "create jobflows from a file", "create_flow"),
    Command("jobflow list", "jobflow", "list jobflows", "list_flow"),
    Command("jobflow get", "jobflow", "show one jobflow", "get_flow"),
    Command("jobflow delete", "jobflow", "delete jobflows by name or file", "delete_flow"),
    Command("jobflow describe", "jobflow", "print jobflows as YAML or JSON", "describe_flow"),
    Command("jobtemplate create", "jobflow", "create jobtemplates from a file", "create_template"),
    Command("jobtemplate list", "jobflow", "list jobtemplates", "list_template"),
    Command("jobtemplate get", "jobflow", "show one jobtemplate", "get_template"),
    Command("jobtemplate delete", "jobflow", "delete jobtemplates by name or file", "delete_template"),
    Command("jobtemplate describe", "jobflow", "print jobtemplates as YAML or JSON", "describe_template"),
    Command(
        "reservation create", "reservation.manage", "reserve nodes for a queue or for maintenance", "create"
    ),
    Command(
        "reservation list",
        "reservation.list",
        "list reserved nodes, and gangs that nodes are reserved for",
        failure="cannot list reservations",
    ),
    Command("reservation delete", "reservation.manage", "delete a reservation of nodes", "delete"),
    Command("pod list", "pod", "list the pods of jobs and queues", "run"),
    Command("podgroup list", "podgroup", "list podgroups", "run"),
    Command("podgroup get", "podgroup", "show one podgroup, by its own or its job's name", "get"),
    Command("podgroup describe", "podgroup", "show a podgroup with its pods and events", "describe"),
    Command("submit", "job.submit", "submit a job from a command line", failure="cannot submit job"),
    Command("top", "top", "watch queues and jobs, full screen", failure="cannot show the cluster"),
    Command(
        "topology",
        "topology.show",
        "show the tree of HyperNodes with its room and jobs",
        failure="cannot show the topology",
    ),
    Command(
        "explain job",
        "explain.commands",
        "say why a job waits and what would start it",
        "job",
        "cannot explain job",
    ),
    Command(
        "explain pod", "explain.commands", "say why a pod has its node, or none", "pod", "cannot explain pod"
    ),
    Command(
        "explain queue",
        "explain.commands",
        "show how the share of a queue comes about",
        "queue",
        "cannot explain queue",
    ),
    Command(
        "explain node",
        "explain.commands",
        "show a node and the jobs it refuses",
        "node",
        "cannot explain node",
    ),
    Command(
        "explain cycle",
        "explain.commands",
        "show what a scheduling cycle decided",
        "cycle",
        "cannot explain cycle",
    ),
    Command(
        "explain cluster",
        "explain.commands",
        "show waiting jobs by reason",
        "cluster",
        "cannot explain the cluster",
    ),
    Command(
        "plan",
        "plan",
        "show where a job would run and what it would evict, without creating it",
        failure="cannot plan",
    ),
    Command(
        "priority",
        "fairshare.priority",
        "show waiting jobs with the factors of their priority",
        failure="cannot show priorities",
    ),
    Command(
        "fairshare",
        "fairshare.shares",
        "show shares and past usage of queues and users",
        failure="cannot show fair shares",
    ),
    Command(
        "usage",
        "usage.show",
        "show who used which resources for how long, and what it costs",
        failure="cannot show usage",
    ),
    Command("completion", "completion.scripts", "print the completion script of a shell"),
    Command("__complete", "completion.scripts", HIDDEN, "answer"),
    Command("help", "help", "show the help of a command"),
    Command("version", "version", "print version and commit", "run"),
)

# Programs with a single command each.
SLURM: dict[str, Command] = {
    "vsub": Command("", "slurm", "submit a job", "vsub"),
    "vjobs": Command("", "slurm", "list jobs, or show one", "vjobs"),
    "vqueues": Command("", "slurm", "list queues, or show one", "vqueues"),
    "vcancel": Command("", "slurm", "delete a job", "vcancel"),
    "vsuspend": Command("", "slurm", "suspend a job", "vsuspend"),
    "vresume": Command("", "slurm", "resume a suspended job", "vresume"),
}
