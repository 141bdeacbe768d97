"""Environment files written by containers: lines of `NAME='value'`, the subset of shell syntax Kubernetes reads."""

import os
import re
import stat

_NAME = re.compile(r"[ \t]*([^=\s]+)=")


MAX_FILE_BYTES = 64 * 1024


class BadEnvFile(Exception):
    """An invalid environment file; the message names the line."""


def read_env_file(volume: str, path: str) -> str:
    """The text of a file within a volume. A container wrote it: it may be a pipe, or a link out of the volume."""
    root = os.path.realpath(volume)
    file = os.path.realpath(os.path.join(root, path.lstrip("/")))
    if not file.startswith(root.rstrip("/") + "/"):
        raise BadEnvFile("the file lies outside the volume")
    at = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(at, "rb") as opened:
        if not stat.S_ISREG(os.fstat(at).st_mode):
            raise BadEnvFile("this is not a regular file")
        raw = opened.read(MAX_FILE_BYTES + 1)
    if len(raw) > MAX_FILE_BYTES:
        raise BadEnvFile(f"the file is larger than {MAX_FILE_BYTES} bytes")
    return raw.decode()


def env_file_value(text: str, key: str) -> str:
    """The value of a variable, empty if the file lacks it. Values are in single quotes and may span lines."""
    lines = iter(enumerate(text.split("\n"), start=1))
    for number, line in lines:
        if not line.strip(" \t\r") or line.lstrip(" \t").startswith("#"):
            continue
        named = _NAME.match(line)
        if named is None:
            raise BadEnvFile(f"line {number} is not of the form NAME='value'")
        rest = line[named.end() :]
        if rest[:1] in ("", " ", "\t"):  # an empty value in a shell
            value = ""
        elif rest[0] != "'":
            raise BadEnvFile(f"line {number}: the value must be enclosed in single quotes")
        else:
            value, rest = rest[1:], ""
            while "'" not in value:
                following = next(lines, None)
                if following is None:
                    raise BadEnvFile(f"line {number}: the closing quote is missing")
                value += "\n" + following[1]
            value, _, rest = value.partition("'")
            if rest.strip(" \t\r") and not rest.lstrip(" \t").startswith("#"):
                raise BadEnvFile(f"line {number}: unexpected content after the closing quote")
        if named[1] == key:
            return value
    return ""
