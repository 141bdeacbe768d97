"""A user's own script runs with its directory, environment and outputs on local nodes."""

import io
import os
import sys
import tarfile
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import Embedded, Vcctl, eventually
from volcano.embedded.options import LocalNodeOptions
from volcano.kube.api.kinds import EVENT, JOB, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, SECRET
from volcano.kube.api.manifest import Key
from volcano.kube.client.protocol import Query
from volcano.services.errors import ServiceError
from volcano.services.submit.outputs import extract
from volcano.services.submit.upload import MAX_SIZE

SMALL = ("--cpus", "10m", "--memory", "16Mi")
SCRIPT = """
import os, pathlib, sys, helper, installed
print("prefix", sys.prefix)
print(os.getcwd(), helper.VALUE, installed.VALUE, os.environ["GREETING"])
pathlib.Path("beside.txt").write_text("written")
pathlib.Path(os.environ["VOLCANO_OUTPUT"], "model.bin").write_bytes(b"model")
"""


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    cluster = Embedded(
        tmp_path_factory.mktemp("local"), local=LocalNodeOptions(nodes=1, runtime="plain"), pools=()
    )
    yield cluster
    cluster.close()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a script, and an activated virtual environment elsewhere."""
    directory = tmp_path / "project"
    directory.mkdir()
    (directory / "train.py").write_text(SCRIPT)
    (directory / "helper.py").write_text("VALUE = 'helper'\n")
    root = tmp_path / "environment"
    venv.create(root, symlinks=True, with_pip=False)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (root / "lib" / version / "site-packages" / "installed.py").write_text("VALUE = 'installed'\n")
    monkeypatch.setenv("VIRTUAL_ENV", str(root))
    monkeypatch.chdir(directory)
    return directory


@pytest.fixture
def submit(run_command: Vcctl, local: Embedded, monkeypatch: pytest.MonkeyPatch) -> Vcctl:
    monkeypatch.setenv("KUBECONFIG", str(local.cluster.kubeconfig))
    return run_command


@pytest.mark.slow
def test_a_script_runs_in_its_directory_with_its_environment(
    submit: Vcctl, local: Embedded, project: Path, tmp_path: Path
) -> None:
    (tmp_path / "variables").write_text('GREETING="from a file"\nOTHER=1\n')
    result = submit(
        "submit",
        "-N",
        "own",
        "--workers",
        "2",
        *SMALL,
        "--image",
        "torch:2",
        "--env-file",
        str(tmp_path / "variables"),
        "--follow",
        "--",
        "python",
        "train.py",
    )
    assert result.code == 0, result.err
    assert "note: the image torch:2 is not used: nodes of the runtime plain run programs" in result.err
    assert f"worker-1 | prefix {tmp_path / 'environment'}" in result.lines
    assert f"worker-0 | {project} helper installed from a file" in result.lines
    assert (project / "beside.txt").read_text() == "written"

    copied = submit("job", "outputs", "own", str(tmp_path / "results"))
    assert (copied.code, copied.out) == (0, f"copied 2 files, 10 B, to {tmp_path / 'results'}\n")
    assert (tmp_path / "results" / "own-worker-1" / "model.bin").read_bytes() == b"model"

    assert submit("job", "delete", "own").code == 0
    assert eventually(lambda: not local.run(local.client.list(PERSISTENT_VOLUME)).items)
    assert not local.run(local.client.list(PERSISTENT_VOLUME_CLAIM)).items
    assert (project / "train.py").exists(), "the directory stays when its volume is deleted"


@pytest.mark.slow
def test_an_uploaded_directory_runs_as_a_copy(submit: Vcctl, local: Embedded, project: Path) -> None:
    (project / ".gitignore").write_text("*.bin\n")
    (project / "large.bin").write_bytes(b"x" * 1000)
    result = submit(
        "submit",
        "-N",
        "sent",
        *SMALL,
        "-e",
        "GREETING=hi",
        "--upload",
        "--follow",
        "--",
        "python train.py; ls -A",
    )
    assert result.code == 0, result.err
    assert f"uploading 3 files of {project}" in result.err
    listed = [line.removeprefix("worker-0 | ") for line in result.lines]
    assert {".gitignore", "beside.txt", "helper.py", "train.py"} <= set(listed)
    assert "large.bin" not in listed
    assert not (project / "beside.txt").exists()
    submit("job", "delete", "sent")
    mine = Query(namespace="default")
    assert eventually(lambda: not local.run(local.client.list(SECRET, mine)).items)


@pytest.mark.slow
def test_what_cannot_be_mounted_is_an_error_and_leaves_nothing(
    submit: Vcctl, local: Embedded, project: Path, tmp_path: Path
) -> None:
    for directory, reason in ((tmp_path, "is a home directory"), (project / "none", "is not a directory")):
        result = submit("submit", *SMALL, "--workdir", str(directory), "--", "true")
        assert result.code != 0
        assert reason in result.err
    data = submit("submit", *SMALL, "--workdir", str(local.cluster.options.directory), "--", "true")
    assert "where keys of a cluster are" in data.err or "may hold credentials" in data.err
    rejected = submit("submit", *SMALL, "--queue", "nowhere", "--", "python", "train.py")
    assert rejected.code == 1
    (project / "weights").write_bytes(os.urandom(MAX_SIZE + 1))
    assert "is too large" in submit("submit", *SMALL, "--upload", "--", "true").err
    assert eventually(lambda: not local.run(local.client.list(PERSISTENT_VOLUME)).items)
    assert not local.run(local.client.list(PERSISTENT_VOLUME_CLAIM)).items
    assert not local.run(local.client.list(JOB)).items


@pytest.mark.slow
def test_a_volume_with_the_cluster_s_keys_is_never_mounted(local: Embedded) -> None:
    """The kubelet checks it: vcctl is not the only way to create a volume."""
    directory = local.cluster.options.directory
    claim = local.create(
        PERSISTENT_VOLUME_CLAIM,
        {
            "metadata": {"name": "keys", "namespace": "default"},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "resources": {"requests": {"storage": "1"}},
                "storageClassName": "",
            },
        },
    )
    reference = {
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": "keys",
        "uid": claim["metadata"]["uid"],
    }
    local.create(
        PERSISTENT_VOLUME,
        {
            "metadata": {"name": "keys"},
            "spec": {
                "capacity": {"storage": "1"},
                "accessModes": ["ReadWriteMany"],
                "claimRef": reference,
                "hostPath": {"path": str(directory)},
            },
        },
    )
    local.create(
        POD,
        {
            "metadata": {"name": "reader", "namespace": "default"},
            "spec": {
                "containers": [
                    {
                        "name": "c",
                        "image": "x",
                        "command": ["ls"],
                        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                    }
                ],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "keys"}}],
            },
        },
    )

    def refused() -> bool:
        events = local.run(local.client.list(EVENT, Query(namespace="default"))).items
        return any("where the keys of this cluster are" in event.get("message", "") for event in events)

    assert eventually(refused)
    for kind, name in ((POD, "reader"), (PERSISTENT_VOLUME_CLAIM, "keys")):
        local.delete(kind, Key("default", name))
    local.delete(PERSISTENT_VOLUME, Key("", "keys"))


def test_on_simulated_nodes_the_user_is_told_that_nothing_is_executed(
    vcctl: Vcctl, embedded: Embedded, namespace: str, project: Path
) -> None:
    result = vcctl("submit", "-N", "sim", *SMALL, "--", "python", "train.py")
    assert (result.code, result.err) == (0, "note: all nodes are simulated: the command is not executed\n")
    pod_spec = embedded.get(JOB, Key(namespace, "sim"))["spec"]["tasks"][0]["template"]["spec"]
    assert "volumes" not in pod_spec
    outputs = vcctl("job", "outputs", "sim", str(project / "out"))
    assert outputs.code == 1
    assert "has no $VOLCANO_OUTPUT" in outputs.err


def test_files_and_a_dry_run_exclude_each_other(run_command: Vcctl) -> None:
    result = run_command("submit", "--dry-run", "--upload", "--", "true")
    assert result.code == 2
    assert "--dry-run prints the job alone" in result.err


def test_the_manifest_of_a_dry_run_has_variables_of_files(run_command: Vcctl, tmp_path: Path) -> None:
    (tmp_path / "a.env").write_text("A=1\nB=2\n")
    result = run_command(
        "submit", "--dry-run", "--env-file", str(tmp_path / "a.env"), "-e", "B=3", "--", "true"
    )
    container = yaml.safe_load(result.out)["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    assert container["env"] == [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}]


def test_outputs_need_a_job_and_a_directory(run_command: Vcctl) -> None:
    result = run_command("job", "outputs", "train")
    assert result.code == 2
    assert "name a job and a directory, such as: vcctl job outputs train results" in result.err


def entry(name: str, **fields: object) -> bytes:
    """An archive of one entry."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        info = tarfile.TarInfo(name)
        for field, value in fields.items():
            setattr(info, field, value)
        archive.addfile(info)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "archive",
    [
        pytest.param(entry("../outside"), id="a path that leads out"),
        pytest.param(entry("link", type=tarfile.SYMTYPE, linkname="/etc"), id="a link that leads out"),
        pytest.param(entry("device", type=tarfile.CHRTYPE), id="a device"),
        pytest.param(b"no archive at all" * 100, id="not an archive"),
    ],
)
def test_a_pod_cannot_write_outside_of_the_directory(archive: bytes, tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    with pytest.raises(ServiceError, match="the outputs were rejected"):
        extract(io.BytesIO(archive), tmp_path / "results")
    assert list(tmp_path.rglob("*")) == [tmp_path / "results"]
