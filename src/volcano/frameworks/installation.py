"""The steps of an installation: virtual environments, Go programs, jars and commands, with progress and a log."""

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from volcano.base.clock import Clock
from volcano.frameworks.errors import NotAvailable

# Patterns of output and the sentence for each, the most telling first.
SENTENCES = (
    (
        re.compile(r"No space left on device|Disk quota exceeded"),
        "no space left on the disk; free some space, or set VOLCANO_FRAMEWORKS to a directory on another disk",
    ),
    (
        re.compile(r"No matching distribution found for (?P<what>[^\s(]+)"),
        "package {what} is not available from the configured package index for this Python",
    ),
    (
        re.compile(r"Could not find artifact (?P<what>\S+)"),
        "artifact {what} is not available from the configured Maven repository",
    ),
    (
        re.compile(r"(?P<what>\S+@\S+): .*(?:40[34]|410|not found|forbidden|Gone)", re.IGNORECASE),
        "Go module {what} is not available from the configured module proxy",
    ),
    (
        re.compile(
            r"Temporary failure in name resolution|Name or service not known|Connection refused|"
            r"Network is unreachable|no such host|Max retries exceeded|Read timed out|i/o timeout"
        ),
        "the package index cannot be reached; check the network, or install on a host that has one",
    ),
)
LAST_LINES = 3

KILLED_WITHIN = 5.0
Progress = Callable[[str], None]


class Installation:
    """An installation in progress. Every step can be repeated and raises NotAvailable with the reason if it fails.

    `directory` is final: virtual environments contain their own path. `within` bounds all steps together, in seconds.
    """

    def __init__(
        self,
        name: str,
        directory: Path,
        log: Path,
        progress: Progress,
        clock: Clock,
        within: float | None = None,
    ) -> None:
        self.name = name
        self.directory = directory
        self._log = log
        self._progress = progress
        self._clock = clock
        self._within = within
        self._deadline = None if within is None else clock.now().monotonic + within

    def pip(self, *requirements: str, env: Mapping[str, str] = {}) -> Path:
        """Installs packages into the virtual environment `directory/venv`; returns its path."""
        venv = self.directory / "venv"
        python = venv / "bin" / "python"
        if not python.exists():
            self.run(sys.executable, "-m", "venv", str(venv))
        self.run(str(python), "-m", "pip", "install", "--disable-pip-version-check", *requirements, env=env)
        return venv

    def go(
        self,
        module: str,
        version: str,
        packages: Mapping[str, str],
        flags: Sequence[str] = (),
    ) -> Path:
        """Builds programs of a Go module, by name and package path, into `directory/bin`; returns that path.

        The files of the module, such as its CRDs, are in `directory/source`.
        """
        self.require("go")
        env = {"CGO_ENABLED": "0", "GOPROXY": self._go_proxy(), "GOFLAGS": "-buildvcs=false"}
        source, programs = self.directory / "source", self.directory / "bin"
        programs.mkdir(exist_ok=True)
        if not source.exists():
            answer = self._output("go", "mod", "download", "-json", f"{module}@{version}", env=env)
            downloaded = _directory_of_module(answer)
            if not downloaded:
                raise NotAvailable(f"{self.name}: Go module {module}@{version} cannot be downloaded")
            _copy_writable(Path(downloaded), source)
        for program, package in packages.items():
            target = programs / program
            new = programs / f".{program}.new"
            self.run("go", "build", "-ldflags", "-s -w", *flags, "-o", str(new), package, env=env, cwd=source)
            os.replace(new, target)
        return programs

    def maven(self, *coordinates: str, transitive: bool = True) -> Path:
        """Copies jars, by `group:artifact:version` and by default with what they need, to `directory/jars`."""
        self.require("mvn")
        jars = self.directory / "jars"
        jars.mkdir(exist_ok=True)
        project = self.directory / "maven"
        project.mkdir(exist_ok=True)
        (project / "pom.xml").write_text(_pom(coordinates))
        self.run(
            "mvn",
            "-B",
            "-ntp",
            "dependency:copy-dependencies",
            f"-DoutputDirectory={jars}",
            "-DincludeScope=runtime",
            f"-DexcludeTransitive={'false' if transitive else 'true'}",
            cwd=project,
        )
        return jars

    def run(self, *command: str, env: Mapping[str, str] = {}, cwd: Path | None = None) -> None:
        """Runs a command, in the directory of the installation by default; its output is in the log."""
        self._output(*command, env=env, cwd=cwd)

    def require(self, *programs: str) -> None:
        """Raises NotAvailable if a program is not installed on this host."""
        for program in programs:
            if shutil.which(program) is None:
                raise NotAvailable(
                    f"{self.name}: needs the program `{program}`, which was not found in PATH; install it first"
                )

    def _output(self, *command: str, env: Mapping[str, str] = {}, cwd: Path | None = None) -> str:
        self._progress(_title(command))
        with self._log.open("a") as log:
            log.write(f"$ {' '.join(command)}\n")
            begin = log.tell()
            log.flush()
            code = self._execute(command, os.environ | dict(env), cwd or self.directory, log.fileno())
        with self._log.open(errors="replace") as log:
            log.seek(begin)
            output = log.read()
        if code != 0:
            reason = explain_failure(command, code, output)
            raise NotAvailable(f"{self.name}: {reason}; the log is {self._log}")
        return output

    def _execute(self, command: Sequence[str], env: Mapping[str, str], cwd: Path, output: int) -> int:
        self.require(command[0])
        try:
            process = subprocess.Popen(
                command,
                env=env,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise NotAvailable(
                f"{self.name}: `{command[0]}` cannot be started: {os.strerror(error.errno or errno.EIO)}"
            ) from None
        try:
            return process.wait(self._seconds_left())
        except subprocess.TimeoutExpired:
            raise NotAvailable(
                f"{self.name}: not installed within {self._within:.0f} s (at: {_title(command)}); "
                f"`volcano frameworks install {self.name}` installs it without a limit"
            ) from None
        finally:
            if process.returncode is None:
                _end(process)

    def _seconds_left(self) -> float | None:
        return None if self._deadline is None else max(self._deadline - self._clock.now().monotonic, 0.0)

    def _go_proxy(self) -> str:
        """Go's proxies without the fall-back to version control hosts, which can hang for minutes."""
        known = subprocess.run(["go", "env", "GOPROXY"], capture_output=True, text=True, check=False).stdout
        return ",".join(part for part in known.strip().split(",") if part not in ("", "direct")) or "off"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a command and the processes it has started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(KILLED_WITHIN)
            return
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            process.wait()
            return


def _title(command: Sequence[str]) -> str:
    """A command as one short line for people: program names instead of paths."""
    words = [Path(word).name if word.startswith("/") else word for word in command]
    line = " ".join(word for word in words if word != "--disable-pip-version-check")
    return line if len(line) <= 100 else line[:97] + "..."


def _directory_of_module(output: str) -> str:
    """`Dir` of the JSON that `go mod download -json` prints between other lines."""
    begin, end = output.find("{\n"), output.rfind("}")
    if begin < 0 or end < begin:
        return ""
    try:
        return str(json.loads(output[begin : end + 1]).get("Dir", ""))
    except ValueError:
        return ""


def _copy_writable(source: Path, target: Path) -> None:
    """Copies a tree of read-only files; the target appears only when it is complete."""
    new = target.with_name(f".{target.name}.new")
    shutil.copytree(source, new, copy_function=shutil.copyfile, dirs_exist_ok=True)
    for folder, _, _ in os.walk(new):
        os.chmod(folder, 0o755)
    os.replace(new, target)


def _pom(coordinates: Sequence[str]) -> str:
    """A Maven project that depends on the given artifacts."""
    dependencies = []
    for coordinate in coordinates:
        parts = coordinate.split(":")
        if len(parts) != 3:
            raise ValueError(f"Maven coordinate {coordinate!r} is not like 'group:artifact:version'")
        group, artifact, version = map(escape, parts)
        dependencies.append(
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
            f"<version>{version}</version></dependency>"
        )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>volcano</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{''.join(dependencies)}</dependencies></project>\n"
    )


def explain_failure(command: Sequence[str], code: int, output: str) -> str:
    """`package x is not available ...`, or the last lines of the output where no reason is known."""
    for pattern, sentence in SENTENCES:
        match = pattern.search(output)
        if match is not None:
            return sentence.format(**match.groupdict())
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    tail = " | ".join(lines[-LAST_LINES:]) or "it printed nothing"
    how = f"was ended by signal {-code}" if code < 0 else f"failed with exit code {code}"
    return f"`{Path(command[0]).name}` {how}: {tail}"
