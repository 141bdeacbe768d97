"""A container engine to test against: it understands podman's or docker's command line and plays plain processes.

Installed under either name by `rig.py`. Everything it knows is in the directory that FAKE_ENGINE names: what it was
asked (`calls`), its containers, images and networks, and in `refusals` lines `<word of a command> => <complaint>`.
"""

import hashlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

STATE = Path(os.environ["FAKE_ENGINE"])
FLAVOUR = Path(sys.argv[1]).name
NEVER = "0001-01-01T00:00:00Z"
Record = dict[str, Any]


def fail(text: str, code: int = 125) -> NoReturn:
    prefix = "Error: " if FLAVOUR == "podman" else "Error response from daemon: "
    sys.stderr.write(f"{prefix}{text}\n")
    sys.exit(code)


def say(text: object) -> None:
    sys.stdout.write(f"{text}\n")


def stamp() -> str:
    nanoseconds = time.time_ns()
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(nanoseconds // 10**9))
    return f"{whole}.{nanoseconds % 10**9:09d}"


def save(record: Record) -> None:
    path = STATE / "containers" / f"{record['Id']}.json"
    path.parent.mkdir(exist_ok=True)
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.write_text(json.dumps(record))
    fresh.replace(path)


def records() -> list[Record]:
    return [json.loads(path.read_text()) for path in sorted((STATE / "containers").glob("*.json"))]


def find(name: str) -> Record:
    for record in records():
        if name in (record["Id"], record["Name"]):
            return record
    fail(f"No such container: {name}", 1)


def labelled(options: list[str], labels: dict[str, str]) -> bool:
    wanted = [word.removeprefix("--filter=label=") for word in options if word.startswith("--filter=")]
    return all(labels.get(word.partition("=")[0]) == word.partition("=")[2] for word in wanted)


def create(words: list[str]) -> None:
    options: dict[str, list[str]] = {}
    while words and words[0].startswith("-"):
        name, _, value = words.pop(0).partition("=")
        options.setdefault(name, []).append(value)
    image, *command = words
    known = json.loads((STATE / "images.json").read_text())
    if image not in known:
        fail(f"{image}: image not known")
    name = options.get("--name", [f"unnamed-{time.time_ns()}"])[0]
    if any(record["Name"] == name for record in records()):
        fail(f'the container name "{name}" is already in use')
    for joined in (word for words in options.values() for word in words if word.startswith("container:")):
        find(joined.removeprefix("container:"))
    given = {
        word.partition("=")[0]: word.partition("=")[2] for word in options.get("--env", []) if "=" in word
    }
    by_name = {word: os.environ[word] for word in options.get("--env", []) if "=" not in word}
    entrypoint = options.get("--entrypoint") or known[image]["Entrypoint"]
    default = [] if "--entrypoint" in options else known[image]["Cmd"]
    labels = dict(word.split("=", 1) for word in options.get("--label", []))
    network = options.get("--network", ["default"])[0]
    number = len(records()) + 2
    identifier = hashlib.sha256(f"{name}{time.time_ns()}".encode()).hexdigest()
    save(
        {
            "Id": identifier,
            "Name": name,
            "Options": options,
            "Command": [*entrypoint, *(command or default)],
            "Environment": {**given, **by_name},
            "State": {"Running": False, "Pid": 0, "ExitCode": 0, "StartedAt": NEVER, "FinishedAt": NEVER},
            "Config": {"Labels": labels, "Tty": "--tty" in options, "OpenStdin": "--interactive" in options},
            "NetworkSettings": {
                "Networks": {network: {"IPAddress": f"10.9.0.{number}" if number < 255 else ""}}
            },
            "StaticDir": str(STATE / identifier),
        }
    )
    say(identifier)


def start(name: str) -> None:
    """Starts a process in place of the engine's monitor."""
    record = find(name)
    ready, tell = os.pipe()
    if os.fork() == 0:
        os.setsid()
        os.close(ready)
        monitor(record, tell)
    os.close(tell)
    with open(ready, "rb") as heard:
        trouble = heard.read().decode()
    if trouble:
        fail(trouble, 127)
    say(name)


def monitor(record: Record, tell: int) -> NoReturn:
    for descriptor in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
    try:
        process = subprocess.Popen(
            record["Command"],
            env={"PATH": os.environ["PATH"], **record["Environment"]},
            cwd="/",
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )
    except OSError as error:
        os.write(tell, f'exec: "{record["Command"][0]}": {str(error.strerror).lower()}'.encode())
        os._exit(0)
    record["State"].update(Running=True, Pid=process.pid, StartedAt=f"{stamp()}Z")
    save(record)
    os.close(tell)
    with open(log_of(record), "ab", buffering=0) as log:
        chosen = selectors.DefaultSelector()
        for stream in ("stdout", "stderr"):
            chosen.register(getattr(process, stream), selectors.EVENT_READ, stream)
        while chosen.get_map():
            for key, _ in chosen.select():
                line = key.fileobj.readline()  # type: ignore[union-attr]
                if not line:
                    chosen.unregister(key.fileobj)
                    continue
                log.write(f"{stamp()}Z {key.data} F ".encode() + line.removesuffix(b"\n") + b"\n")
    code = process.wait()
    state = {"Running": False, "Pid": 0, "ExitCode": 128 - code if code < 0 else code}
    record["State"].update(state, FinishedAt=f"{stamp()}Z")
    if (STATE / "containers" / f"{record['Id']}.json").exists():
        save(record)
    os._exit(0)


def log_of(record: Record) -> Path:
    """podman writes to the given file; docker has its own."""
    told = [word for word in record["Options"].get("--log-opt", []) if word.startswith("path=")]
    return Path(told[0].removeprefix("path=")) if told else STATE / f"{record['Id']}.log"


def logs(words: list[str], *, stamps: bool = True) -> None:
    record = find(words[-1])
    since = next(
        (word.removeprefix("--since=").rstrip("Z") for word in words if word.startswith("--since=")), ""
    )
    path, position = log_of(record), 0
    while True:
        running = find(record["Id"])["State"]["Running"]
        text = path.read_bytes()[position:] if path.exists() else b""
        for line in text.splitlines(keepends=True):
            position += len(line)
            time_of, stream, _, rest = line.split(b" ", 3)
            if time_of.decode().rstrip("Z") >= since:
                target = sys.stdout if stream == b"stdout" else sys.stderr
                target.buffer.write(time_of + b" " + rest if stamps else rest)
                target.flush()
        if "--follow" not in words or not running:
            return
        time.sleep(0.02)


def wait(name: str) -> None:
    while find(name)["State"]["Running"]:
        time.sleep(0.02)
    say(find(name)["State"]["ExitCode"])


def kill(words: list[str]) -> None:
    record = find(words[-1])
    if not record["State"]["Running"]:
        fail(f"can only kill running containers. {record['Id']} is in state exited")
    os.killpg(record["State"]["Pid"], int(words[0].removeprefix("--signal=").replace("KILL", "9")))


def remove(words: list[str]) -> None:
    for name in (word for word in words if not word.startswith("-")):
        record = find(name)
        if record["State"]["Running"]:
            os.killpg(record["State"]["Pid"], signal.SIGKILL)
            wait(record["Id"])
        (STATE / "containers" / f"{record['Id']}.json").unlink(missing_ok=True)
        say(name)


def execute(words: list[str]) -> NoReturn:
    environment = {}
    while words[0].startswith("--"):
        word = words.pop(0)
        if word.startswith("--env="):
            name, _, value = word.removeprefix("--env=").partition("=")
            environment[name] = value
    record = find(words.pop(0))
    variables = {"PATH": os.environ["PATH"], **record["Environment"], **environment}
    # The engine's program is not the process in the container: its end is not that one's.
    process = subprocess.Popen(words, env=variables, start_new_session=True)
    sys.exit(process.wait())


def attach(words: list[str]) -> None:
    logs(["--follow", f"--since={stamp()}Z", find(words[-1])["Id"]], stamps=False)


def image(words: list[str]) -> None:
    path = STATE / "images.json"
    known = json.loads(path.read_text())
    match words:
        case ["inspect", name] if name in known:
            say(json.dumps([{"Id": name, "Config": known[name]}]))
        case ["rm", name] if name in known:
            if any(record["Command"] == known[name]["Cmd"] for record in records()):
                fail("image is in use", 2)
            path.write_text(json.dumps({key: value for key, value in known.items() if key != name}))
        case _:
            fail(f"{words[-1]}: image not known", 1)


def take_image(name: str) -> None:
    path = STATE / "images.json"
    known = json.loads(path.read_text())
    known[name] = {"Entrypoint": [], "Cmd": ["sleep", "86400"], "User": ""}
    path.write_text(json.dumps(known))


def network(words: list[str]) -> None:
    directory = STATE / "networks"
    directory.mkdir(exist_ok=True)
    match words:
        case ["inspect", name]:
            if not (directory / name).exists():
                fail(f"network {name} not found", 1)
        case ["create", *options, name]:
            if (directory / name).exists():
                fail(f"network {name} already exists", 1)
            labels = dict(word[8:].split("=", 1) for word in options if word.startswith("--label="))
            (directory / name).write_text(json.dumps(labels))
        case ["ls", *options]:
            for path in directory.iterdir():
                if labelled(options, json.loads(path.read_text())):
                    say(path.name)
        case ["rm", name]:
            (directory / name).unlink()


def main(words: list[str]) -> None:
    with open(STATE / "calls", "a") as calls:
        calls.write(json.dumps(words) + "\n")
    refusals = STATE / "refusals"
    for line in refusals.read_text().splitlines() if refusals.exists() else ():
        word, _, complaint = line.partition(" => ")
        if word in words or any(word in each for each in words):
            fail(complaint, 1)
    match words:
        case ["info", _]:
            say("amd64 rootless=false" if FLAVOUR == "podman" else "x86_64 [name=seccomp,profile=builtin]")
        case ["create", *rest]:
            create(rest)
        case ["start", name]:
            start(name)
        case ["container", "inspect", "--size", *names]:
            sizes = {
                record["Id"]: 4096 * len(record["Name"]) for record in records() if record["Id"] in names
            }
            say(json.dumps([{"Id": identifier, "SizeRw": size} for identifier, size in sizes.items()]))
        case ["container", "inspect", *names]:
            wanted = [record for record in records() if record["Id"] in names or record["Name"] in names]
            say(json.dumps(wanted))
            if len(wanted) < len(names):
                fail("no such container", 1)
        case ["ps", *options]:
            for record in records():
                if labelled(options, record["Config"]["Labels"]):
                    say(record["Id"])
        case ["logs", *rest]:
            logs(rest)
        case ["wait", name]:
            wait(name)
        case ["kill", *rest]:
            kill(rest)
        case ["rm", *rest]:
            remove(rest)
        case ["exec", *rest]:
            execute(rest)
        case ["attach", *rest]:
            attach(rest)
        case ["image", *rest]:
            image(rest)
        case ["import", _, "-", name]:
            assert b"pause" in sys.stdin.buffer.read()
            take_image(name)
        case ["pull", "--quiet", name]:
            take_image(name)
        case ["network", *rest]:
            network(rest)
        case _:
            fail(f"unknown command {words}")


if __name__ == "__main__":
    main(sys.argv[2:])
