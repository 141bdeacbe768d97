"""Containers of mapped images: what they run, with which files, variables and user."""

from pathlib import Path
from typing import Any

import pytest

from tests.nodes.kubelet.pods.bench import KubeletBench, bench, container
from volcano.nodes.image_map import ImageMap
from volcano.nodes.image_mapping import ImageMapping

DIRECTORY = str(Path(__file__).parent)
MAPPING = ImageMapping(
    pattern="apache/spark:*",
    paths=(DIRECTORY, f"{__file__}:/usr/local/bin/spark", f"{DIRECTORY}:/mnt:rw"),
    entrypoint=("/opt/entrypoint.sh", "--verbose"),
    arguments=("help",),
    environment={"SPARK_HOME": "/opt/spark", "PATH": "/opt/spark/bin", "LEVEL": "image"},
    user=185,
    working_directory="/opt/spark",
)
IMAGES = ImageMap([MAPPING, ImageMapping("bare:*")])


def of_image(image: str = "apache/spark:3.5", **fields: Any) -> dict[str, Any]:
    made = container(image=image, **fields)
    if "command" not in fields:
        del made["command"]
    return made


@pytest.mark.parametrize(
    ("fields", "command"),
    [
        pytest.param(
            {}, ("/opt/entrypoint.sh", "--verbose", "help"), id="entry point and arguments of the image"
        ),
        pytest.param(
            {"args": ["driver", "$(WORD)"]},
            ("/opt/entrypoint.sh", "--verbose", "driver", "hi"),
            id="own arguments",
        ),
        pytest.param({"command": ["sh"]}, ("sh",), id="an own command replaces both"),
        pytest.param({"command": ["sh"], "args": ["-c"]}, ("sh", "-c"), id="own command and arguments"),
        pytest.param(
            {"image": "bare:1", "args": ["sh", "-c"]}, ("sh", "-c"), id="an image without entry point"
        ),
    ],
)
async def test_a_mapped_image_runs_what_a_container_runtime_would(
    fields: dict[str, Any], command: tuple[str, ...]
) -> None:
    async with bench(find_image=IMAGES.find) as it:
        await it.create(containers=[of_image(env=[{"name": "WORD", "value": "hi"}], **fields)])
        assert it.runtime.starts[0].command == command


async def test_a_mapped_image_gives_files_variables_user_and_directory() -> None:
    async with bench(find_image=IMAGES.find) as it:
        await it.create(containers=[of_image(env=[{"name": "LEVEL", "value": "pod"}])])
        started = it.runtime.starts[0]
        assert [(each.source, each.target, each.read_only) for each in started.mounts[:3]] == [
            (DIRECTORY, DIRECTORY, True),
            (__file__, "/usr/local/bin/spark", True),
            (DIRECTORY, "/mnt", False),
        ]
        variables = started.environment
        assert [variables[name] for name in ("SPARK_HOME", "PATH", "LEVEL")] == [
            "/opt/spark",
            "/opt/spark/bin",
            "pod",
        ]
        assert (started.identity.user, started.working_directory) == (185, "/opt/spark")
        events = await it.events("Pulled")
        assert events == [
            'Container image "apache/spark:3.5" is not pulled: the pod runs the programs of this host that the image '
            "map names for it"
        ]


async def test_the_pod_has_precedence_over_its_image() -> None:
    async with bench(find_image=IMAGES.find) as it:
        await it.create(
            containers=[of_image(workingDir="/w", securityContext={"runAsUser": 7})],
            securityContext={"runAsNonRoot": True},
        )
        started = it.runtime.starts[0]
        assert (started.identity.user, started.working_directory) == (7, "/w")


async def test_a_user_of_an_image_other_than_root_satisfies_run_as_non_root() -> None:
    async with bench(find_image=IMAGES.find) as it:
        await it.create(containers=[of_image()], securityContext={"runAsNonRoot": True})
        assert it.runtime.starts[0].identity.user == 185


async def test_the_user_of_an_image_is_ignored_where_users_cannot_be_changed() -> None:
    async with bench(find_image=IMAGES.find, features={"any_user": False}) as it:
        await it.create(containers=[of_image()])
        assert it.runtime.starts[0].identity.user is None


async def test_containers_that_share_the_hosts_files_get_only_those_at_other_paths() -> None:
    async with bench(find_image=IMAGES.find, features={"own_network": False}) as it:
        await it.create(containers=[of_image()])
        assert [each.target for each in it.runtime.starts[0].mounts[:2]] == ["/usr/local/bin/spark", "/mnt"]


async def waiting(it: KubeletBench) -> tuple[str, str]:
    state = (await it.container())["state"]["waiting"]
    return state["reason"], state["message"]


async def test_arguments_without_command_and_mapping_say_what_to_do() -> None:
    async with bench() as it:
        await it.create(containers=[of_image(args=["driver"])])
        assert it.runtime.starts == []
        reason, message = await waiting(it)
        assert reason == "CreateContainerConfigError"
        assert message == (
            "pod default/p, container c: args are set without a command, and the entry point of image "
            "'apache/spark:3.5' is not known: images are not pulled here; set command, as in command: "
            '["python3"], or map the image to programs of this host, with `volcano up --images FILE` or `volcano '
            "frameworks install NAME`"
        )
        assert await it.events("Failed") == [f"Error: {message}"]


async def test_a_container_starts_once_its_image_is_mapped() -> None:
    known: list[ImageMapping] = []
    async with bench(find_image=lambda image: ImageMap(known).find(image)) as it:
        await it.create(containers=[of_image(args=["driver"])])
        assert it.runtime.starts == []
        known.append(MAPPING)
        await it.pass_time(15)
        assert it.runtime.starts[0].command == ("/opt/entrypoint.sh", "--verbose", "driver")


async def test_neither_command_nor_args_is_an_error_with_an_example() -> None:
    async with bench(find_image=IMAGES.find) as it:
        await it.create(containers=[of_image("bare:1")])
        _, message = await waiting(it)
        assert message.startswith(
            "pod default/p, container c: neither command nor args are set, and the image 'bare:1'"
        )


async def test_a_missing_path_of_a_mapping_is_named() -> None:
    async with bench(find_image=ImageMap([ImageMapping("a", paths=("/nonexistent/spark",))]).find) as it:
        await it.create(containers=[of_image("a", args=["b"])])
        reason, message = await waiting(it)
        assert reason == "CreateContainerConfigError"
        assert message.startswith(
            "image map: path /nonexistent/spark of image 'a' does not exist on this host; "
        )


async def test_the_keys_of_the_cluster_are_not_mapped() -> None:
    mappings: list[ImageMapping] = []
    async with bench(find_image=lambda image: ImageMap(mappings).find(image)) as it:
        mappings.append(ImageMapping("a", paths=(str(it.options.directory),)))
        await it.create(containers=[of_image("a", args=["b"])])
        _, message = await waiting(it)
        assert "where the keys of this cluster are" in message


async def test_container_engines_use_real_images() -> None:
    async with bench(find_image=IMAGES.find, features={"pulls_images": True}) as it:
        await it.create(containers=[of_image(args=["driver"])])
        started = it.runtime.starts[0]
        assert started.command == ("driver",)
        assert (started.own_entrypoint, started.identity.user, started.working_directory) == (False, None, "")
        assert "SPARK_HOME" not in started.environment
        assert [each.target for each in started.mounts] == ["/dev/termination-log"]
