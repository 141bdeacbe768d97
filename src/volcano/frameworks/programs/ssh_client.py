"""Runs the host's ssh; in the runtime plain, with the port and the files of the pod. See `ssh_server`."""

import os
import sys
import zlib

FIRST_PORT, PORTS = 20000, 10000  # as in ssh_server
OPTIONS_WITH_VALUES = "BbcDEeFIiJLlmOoPpQRSWw"


def main() -> None:
    program = next(
        path for path in ("/usr/bin/ssh", "/usr/local/bin/ssh", "/bin/ssh") if os.path.exists(path)
    )
    arguments = sys.argv[1:]
    root = os.environ.get("VOLCANO_ROOT")
    os.execv(program, [program, *(plain_options(root, arguments) if root else ()), *arguments])


def plain_options(root: str, arguments: list[str]) -> list[str]:
    """Options for the host that is named in the arguments."""
    port = FIRST_PORT + zlib.crc32(host_of(arguments).partition(".")[0].encode()) % PORTS
    files = f"{root}/root/.ssh"
    return [
        *("-F", f"{files}/config", "-i", f"{files}/id_rsa", "-p", str(port)),
        *("-o", "HostName=127.0.0.1", "-o", "UserKnownHostsFile=/dev/null"),
    ]


def host_of(arguments: list[str]) -> str:
    """The first word that is neither an option nor the value of one, without the user."""
    words = iter(arguments)
    for word in words:
        if not word.startswith("-"):
            return word.rpartition("@")[2]
        if len(word) == 2 and word[1] in OPTIONS_WITH_VALUES:
            next(words, None)
    return ""


if __name__ == "__main__":
    main()
