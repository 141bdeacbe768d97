"""Errors of the SDK. Those of the API server are the classes of `volcano.kube.api.errors`."""

from volcano.services.errors import ServiceError


class JobFailed(Exception):
    """A job ended otherwise than Completed."""


class WorkerFailed(JobFailed):
    """A function raised an error in a pod; the cause is that error where it can be loaded here."""

    def __init__(self, rank: int, traceback: str) -> None:
        last = traceback.strip().rpartition("\n")[2]
        super().__init__(f"worker {rank} failed: {last}\n\n{traceback.strip()}")
        self.rank, self.traceback = rank, traceback


class NotFinished(Exception):
    """A job did not end in the time given."""


# What a command line would print: no cluster, a missing object, a value that is not valid.
SdkError = ServiceError
