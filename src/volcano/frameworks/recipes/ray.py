"""Ray, for the `ray` job plugin and KubeRay."""

from pathlib import Path

from volcano.frameworks.recipe import ImageMapping, Installation, Recipe

VERSION = "2.49.2"


def install(installation: Installation) -> None:
    installation.pip(f"ray[default]=={VERSION}")


def images(directory: Path) -> tuple[ImageMapping, ...]:
    """Every Ray image. `ray` is also below /usr/local/bin: KubeRay uses login shells, which set PATH anew."""
    programs = directory / "venv" / "bin"
    return (
        ImageMapping(
            pattern="rayproject/ray:*",
            paths=(str(directory), f"{programs}/ray:/usr/local/bin/ray"),
            environment={
                "PATH": f"{programs}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "RAY_USAGE_STATS_ENABLED": "0",
                # Ray's limits are meant for idle machines; with the default of 30 s a busy one never becomes ready.
                "RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT": "300",
            },
        ),
    )


RECIPE = Recipe(
    name="ray",
    version=VERSION,
    summary="Ray with its dashboard and job server",
    size="340 MB",
    install=install,
    images=images,
)
