"""Functions as files for pods, and their results from the logs of pods."""

import base64
import io
import pickle
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

from volcano.sdk.call import MARK
from volcano.sdk.errors import SdkError
from volcano.services.submit.pod_files import WORKSPACE
from volcano.services.submit.upload import MAX_SIZE, PART_SIZE, format_size

PROGRAM = f"{WORKSPACE}/call.py"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def pack_call(
    function: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any]
) -> Sequence[bytes]:
    """A compressed archive, in parts that fit in Secrets, of a call and the program that makes it."""
    try:
        import cloudpickle
    except ImportError:
        raise SdkError(
            "submitting a function needs cloudpickle; install it with: pip install 'volcano-py[sdk]'"
        ) from None
    with _own_modules_by_value(cloudpickle):
        try:
            call = cloudpickle.dumps((function, tuple(arguments), dict(named)))
        except Exception as error:  # whatever the arguments' classes raise
            raise SdkError(
                f"{_name(function)} cannot be sent to other processes: {type(error).__name__}: {error}; pass plain "
                "data, and open files and connections inside of the function"
            ) from error
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        _add(archive, "call.pickle", call)
        _add(archive, "call.py", (files("volcano.sdk") / "call.py").read_bytes())
        _add(archive, "python-version", PYTHON.encode())
        package = Path(str(files("cloudpickle")))
        for path in sorted(package.glob("*.py")):
            _add(archive, f"cloudpickle/{path.name}", path.read_bytes())
    data = buffer.getvalue()
    if len(data) > MAX_SIZE:
        raise SdkError(
            f"{_name(function)} with its arguments has {format_size(len(data))} compressed, at most "
            f"{format_size(MAX_SIZE)} can be sent: read large data inside of the function, from a volume or a URL"
        )
    return [data[start : start + PART_SIZE] for start in range(0, len(data), PART_SIZE)]


def read_outcome(log: str) -> tuple[str, Any] | None:
    """`("result", value)` or `("error", (traceback, error))` of a worker; None if its log contains neither."""
    parts: dict[int, str] = {}
    count = 0
    for line in log.splitlines():
        if line.startswith(f"{MARK} "):
            _, position, text = line.split(" ", 2)
            number, _, total = position.partition("/")
            count = int(total)
            if number == "1":
                parts.clear()  # of an earlier attempt
            parts[int(number)] = text
    if not count or sorted(parts) != list(range(1, count + 1)):
        return None
    data = base64.b64decode("".join(parts[number] for number in range(1, count + 1)))
    kind, value = pickle.loads(data)  # written by the caller's own function
    return kind, value


def without_outcome(lines: Iterable[str]) -> Iterator[str]:
    """The lines that the function itself printed."""
    return (line for line in lines if not line.startswith(f"{MARK} "))


@contextmanager
def _own_modules_by_value(cloudpickle: ModuleType) -> Iterator[None]:
    """Sends modules along that are not installed, such as those beside a script: pods may not have them."""
    registered = []
    try:
        for name in {name.partition(".")[0] for name in list(sys.modules)}:
            module = sys.modules.get(name)
            if module is not None and _is_own(module):
                cloudpickle.register_pickle_by_value(module)
                registered.append(module)
        yield
    finally:
        for module in registered:
            cloudpickle.unregister_pickle_by_value(module)


def _is_own(module: ModuleType) -> bool:
    """Whether a module is neither of Python itself nor in a directory where packages are installed."""
    path = getattr(module, "__file__", None)
    if not path or module.__name__ in ("__main__", "volcano"):
        return False
    found = Path(path).resolve()
    places = (sys.prefix, sys.base_prefix, sys.exec_prefix)
    if any(found.is_relative_to(Path(place).resolve()) for place in places):
        return False
    root = found.parent.parent if found.stem == "__init__" else found.parent
    return not any(root.glob("*.dist-info"))


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o644
    archive.addfile(info, io.BytesIO(data))


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", repr(function))
