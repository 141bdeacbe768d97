"""Program of a worker pod: calls the submitted function and prints its result for the SDK.

It is copied into pods together with `cloudpickle`, and uses nothing else: the pods need no Volcano, only the Python
version of the caller.
"""

import base64
import os
import pickle
import signal
import sys
import traceback

MARK = "@volcano-result"  # begins the lines that are not output of the function
PART = 32_768  # characters of a line; runtimes cut longer ones
TERMINATED = 128 + signal.SIGTERM  # exit code
LARGEST = 4 << 20  # bytes of a result: it passes through the log of the pod


def main() -> int:
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.remove(here)
    sys.path.insert(0, os.getcwd())
    sys.path.append(here)  # an installed cloudpickle comes first
    _set_rank()
    # The first process of a pod is not ended by the signal unless it asks for it.
    signal.signal(signal.SIGTERM, _terminate)
    with open(os.path.join(here, "python-version")) as file:
        expected = file.read().strip()
    actual = f"{sys.version_info.major}.{sys.version_info.minor}"
    if actual != expected:
        sys.stderr.write(
            f"the function was sent by Python {expected}, and this pod has Python {actual}: "
            f"choose an image with Python {expected}, such as python:{expected}\n"
        )
        return 1
    with open(os.path.join(here, "call.pickle"), "rb") as file:
        function, arguments, named = pickle.load(file)
    try:
        outcome = ("result", function(*arguments, **named))
    except BaseException as error:
        if isinstance(error, SystemExit) and error.code == TERMINATED:
            return TERMINATED  # another worker failed, or the job was deleted: there is no outcome
        if isinstance(error, SystemExit) and error.code in (None, 0):
            outcome = ("result", None)
        else:
            traceback.print_exc()
            _print_outcome(("error", (traceback.format_exc(), _picklable(error))))
            return 1
    return 0 if _print_outcome(outcome) else 1


def _terminate(number: int, frame: object) -> None:
    raise SystemExit(TERMINATED)


def _set_rank() -> None:
    """Variables that PyTorch and others read, from those of the job's plugins."""
    environment = os.environ
    hosts = environment.get("VC_WORKER_HOSTS", "").split(",")
    for name, value in (
        ("RANK", environment.get("VC_TASK_INDEX", "0")),
        ("WORLD_SIZE", environment.get("VC_WORKER_NUM", "1")),
        ("LOCAL_RANK", "0"),
        ("LOCAL_WORLD_SIZE", "1"),
        ("MASTER_ADDR", hosts[0] or "localhost"),
        ("MASTER_PORT", "29500"),
    ):
        environment.setdefault(name, value)


def _print_outcome(outcome: tuple[str, object]) -> bool:
    """Prints the outcome in marked lines; returns whether the caller will be able to read it."""
    import cloudpickle

    try:
        data = cloudpickle.dumps(outcome)
    except Exception as error:
        sys.stderr.write(f"the result cannot be sent back: {error}; return plain data\n")
        return False
    if len(data) > LARGEST:
        sys.stderr.write(
            f"the result has {len(data)} bytes, at most {LARGEST} can be returned: write it to a file in "
            "$VOLCANO_OUTPUT instead\n"
        )
        return False
    text = base64.b64encode(data).decode()
    parts = [text[start : start + PART] for start in range(0, len(text), PART)]
    sys.stdout.flush()
    lines = [f"{MARK} {number + 1}/{len(parts)} {part}\n" for number, part in enumerate(parts)]
    sys.stdout.write("\n" + "".join(lines))
    sys.stdout.flush()
    return True


def _picklable(error: BaseException) -> BaseException | None:
    """The error, if the caller can load it."""
    import cloudpickle

    try:
        pickle.loads(cloudpickle.dumps(error))
    except Exception:
        return None
    return error


if __name__ == "__main__":
    raise SystemExit(main())
