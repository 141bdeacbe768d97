"""`vcctl`, `kubectl volcano` and the programs for Slurm users."""

import sys

from volcano.cli.program import main as run


def main() -> int:
    """vcctl."""
    return run(program="vcctl")


def kubectl_plugin() -> int:
    """kubectl volcano: kubectl finds the plugin by its file name, kubectl-volcano."""
    return run(program="kubectl volcano")


def vsub() -> int:
    """vsub: submit a job."""
    return run(program="vsub")


def vjobs() -> int:
    """vjobs: list jobs, or show one."""
    return run(program="vjobs")


def vqueues() -> int:
    """vqueues: list queues, or show one."""
    return run(program="vqueues")


def vcancel() -> int:
    """vcancel: delete a job."""
    return run(program="vcancel")


def vsuspend() -> int:
    """vsuspend: suspend a job."""
    return run(program="vsuspend")


def vresume() -> int:
    """vresume: resume a suspended job."""
    return run(program="vresume")


if __name__ == "__main__":
    sys.exit(main())
