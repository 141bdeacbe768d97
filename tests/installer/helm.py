"""Helm with its own home, and a plain file server for charts."""

import functools
import http.server
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.installer.rendered import Rendered
from tests.k8s.control_plane.build import program
from tools.installer.places import CHART

NAMESPACE = "volcano-system"


class Helm:
    """Runs Helm on one cluster or on none, without the machine's own Helm configuration."""

    def __init__(self, home: Path, kubeconfig: Path | None = None) -> None:
        if not program("helm").exists():
            pytest.skip("helm is not built; `make test-k8s` builds it where Go is installed")
        folders = {f"HELM_{name}_HOME": str(home / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
        self._environment = {**os.environ, **folders, "KUBECONFIG": str(kubeconfig or home / "none")}

    def run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [program("helm"), *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert not check or done.returncode == 0, f"helm {' '.join(arguments)}: {done.stderr}"
        return done

    def template(self, *settings: str, chart: Path = CHART) -> Rendered:
        """The rendered chart with `--set` settings, or with options that start with `--`."""
        options = [
            word
            for setting in settings
            for word in ([setting] if setting.startswith("--") else ["--set", setting])
        ]
        return Rendered.of(
            self.run("template", "volcano", str(chart), "--namespace", NAMESPACE, *options).stdout
        )

    def render_error(self, *settings: str) -> str:
        """The error of rendering the chart with these settings."""
        options = [word for setting in settings for word in ("--set", setting)]
        done = self.run("template", "volcano", str(CHART), "--namespace", NAMESPACE, *options, check=False)
        assert done.returncode != 0, f"rendered although {settings}"
        return done.stderr


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serves a folder on loopback; yields its address."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
