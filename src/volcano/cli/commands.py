"""The table of commands: their words, the module that carries them out, and their line of help."""

from typing import NamedTuple

HIDDEN = ""  # the help of a command that only programs use


class Command(NamedTuple):
    """One leaf of the tree. `function` names two functions of the module: itself and `<function>_arguments`."""

    words: str
    module: str
    help: str
    function: str = "run"


GROUPS = {
    "job": "vcctl command line operation job",
    "queue": "Queue Operations",
    "jobflow": "vcctl command line operation jobflow",
    "jobtemplate": "vcctl command line operation jobtemplate",
    "pod": "vcctl command line operation pod",
    "podgroup": "look at the gangs behind jobs and pods",
}

VCCTL: tuple[Command, ...] = (
    Command("job run", "jobs", "run job by parameters from the command line", "run"),
    Command("job list", "joblist", "list job information", "run"),
    Command("job view", "jobview", "show job information", "run"),
    Command("job suspend", "jobs", "abort a job", "suspend"),
    Command("job resume", "jobs", "resume a job", "resume"),
    Command("job delete", "jobs", "delete a job", "delete"),
    Command("job logs", "logs", "print the logs of a job's pods, interleaved"),
    Command("job wait", "wait", "wait until a job reaches a phase"),
    Command("job describe", "describe", "show all about a job on one screen"),
    Command("queue create", "queues", "create a queue", "create"),
    Command("queue delete", "queues", "delete a queue", "delete"),
    Command("queue operate", "queues", "open, close or update a queue", "operate"),
    Command("queue update", "queues", "change a queue's weight, parent or resources", "update"),
    Command("queue list", "queuelist", "list queues", "run"),
    Command("queue get", "queuelist", "show one queue", "get"),
    Command("queue tree", "tree", "show the hierarchy of queues with their shares"),
    Command("jobflow create", "flows", "create jobflows from a file", "create_flow"),
    Command("jobflow list", "flows", "list jobflows", "list_flow"),
    Command("jobflow get", "flows", "show one jobflow", "get_flow"),
    Command("jobflow delete", "flows", "delete jobflows by name or file", "delete_flow"),
    Command("jobflow describe", "flows", "print jobflows as YAML or JSON", "describe_flow"),
    Command("jobtemplate create", "flows", "create jobtemplates from a file", "create_template"),
    Command("jobtemplate list", "flows", "list jobtemplates", "list_template"),
    Command("jobtemplate get", "flows", "show one jobtemplate", "get_template"),
    Command("jobtemplate delete", "flows", "delete jobtemplates by name or file", "delete_template"),
    Command("jobtemplate describe", "flows", "print jobtemplates as YAML or JSON", "describe_template"),
    Command("pod list", "pods", "list the pods of jobs and queues", "run"),
    Command("podgroup list", "podgroups", "list podgroups", "run"),
    Command("podgroup get", "podgroups", "show one podgroup, by its own or its job's name", "get"),
    Command("podgroup describe", "podgroups", "show all about a podgroup", "describe"),
    Command("submit", "submit", "submit a job from a command line"),
    Command("top", "top", "watch queues and jobs, full screen"),
    Command("completion", "completion", "print the completion script of a shell"),
    Command("__complete", "completion", HIDDEN, "answer"),
    Command("version", "version", "Print the version information", "run"),
)

# The single-purpose programs: the same table, one row each.
SLURM: dict[str, Command] = {
    "vsub": Command("", "slurm", "submit a job", "vsub"),
    "vjobs": Command("", "slurm", "list jobs, or show one", "vjobs"),
    "vqueues": Command("", "slurm", "list queues, or show one", "vqueues"),
    "vcancel": Command("", "slurm", "delete a job", "vcancel"),
    "vsuspend": Command("", "slurm", "suspend a job", "vsuspend"),
    "vresume": Command("", "slurm", "resume a suspended job", "vresume"),
}
