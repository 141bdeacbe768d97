"""Arguments of deviceshare, and the device ConfigMap."""

from typing import Any

import pytest

from tests.scenario import config
from tests.scheduler.plugins.deviceshare.cards import (
    Cards,
    ask,
    cards_of,
    device_config,
    gpu_node,
    plugin,
    pods,
)
from volcano.model.decisions import Bind
from volcano.scheduler.engine.config import ConfigError
from volcano.scheduler.plugins.deviceshare.device_config import (
    DEFAULT,
    DeviceConfigError,
    parse_config,
    read_config,
)
from volcano.scheduler.plugins.deviceshare.settings import Settings


def arguments(**given: Any) -> dict[str, Any]:
    return plugin(**{f"deviceshare.{name}": value for name, value in given.items()})


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("GPUSharingEnable", "GPUNumberEnable"),
        ("GPUSharingEnable", "VGPUEnable"),
        ("GPUNumberEnable", "VGPUEnable"),
    ],
)
def test_conflicting_switches_are_refused_with_both_names(first: str, second: str) -> None:
    with pytest.raises(ConfigError) as error:
        config([arguments(**{first: True, second: True})])
    assert f"deviceshare.{first} and deviceshare.{second} of deviceshare cannot both be true" in str(
        error.value
    )
    assert config([arguments(**{first: True, second: False})]).warnings == ()


def test_a_policy_without_weight_has_weight_1_and_a_warning() -> None:
    parsed = config([arguments(VGPUEnable=True, SchedulePolicy="spread")])
    (warning,) = parsed.warnings
    assert (
        "deviceshare.SchedulePolicy is 'spread' and deviceshare.ScheduleWeight is not set: the weight is 1"
        in warning
    )
    assert Settings.of(parsed.tiers[0][0].arguments).weight == 1.0


def test_mind_cluster_is_refused_with_the_reason() -> None:
    with pytest.raises(ConfigError, match="vNPUs of MindCluster are not provided"):
        config([arguments(AscendMindClusterVNPUEnable=True)])
    config([arguments(AscendMindClusterVNPUEnable=False)])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"VGPUEnable": "maybe"}, "must be true or false"),
        ({"SchedulePolicy": "pack"}, "must be binpack, spread or empty"),
        ({"ScheduleWeight": -1}, "must be at least 0"),
        ({"GPUExclusiveRules": [{"a": 1}]}, "must be a list of maps of labels to texts"),
        ({"GPUExclusiveRules": [{}]}, "must be a list of maps of labels to texts"),
    ],
)
def test_wrong_arguments_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config([arguments(**given)])


def test_without_switches_nothing_is_shared() -> None:
    world = Cards(nodes=[gpu_node()], plugins=[arguments()], jobs=[pods("p", **ask(1, 4000))])
    result = world.cycle()
    assert result.bound() == {"p-worker-0": "g"}
    assert cards_of(result) == {}


def test_omitted_names_have_defaults_and_unknown_keys_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    found = parse_config(
        "nvidia: {resourceCountName: x/y, gpuMemoryFactor: 10, defaultGPUNum: 1, nonsense: 2}"
    )
    assert (found.vgpu.number, found.vgpu.memory, found.vgpu.percentage, found.vgpu.factor) == (
        "x/y", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-memory-percentage", 10,
    )  # fmt: skip
    assert "nonsense" in caplog.text
    assert "defaultGPUNum" not in caplog.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (": [", "not YAML"),
        ("[]", "should be a map"),
        ("nvidia: {gpuMemoryFactor: many}", "nvidia.gpuMemoryFactor should be a whole number, not 'many'"),
        ("nvidia: {knownMigGeometries: {}}", "knownMigGeometries should be a list"),
        ("vnpus: [{chipName: x}]", "needs a commonWord such as Ascend310P"),
        ("vnpus: [{commonWord: A}]", "memoryAllocatable of A should be a whole number, not None"),
    ],
)
def test_a_malformed_device_config_is_explained_and_defaults_apply(text: str, message: str) -> None:
    with pytest.raises(DeviceConfigError, match=message):
        parse_config(text)
    assert read_config(text) is DEFAULT


def test_another_config_map_can_be_named() -> None:
    text = "nvidia: {resourceMemoryName: nvidia.com/vmem}"
    machine = gpu_node(more={"nvidia.com/vmem": 32000})
    limits: dict[str, Any] = {"volcano.sh/vgpu-number": 1, "nvidia.com/vmem": 500}
    chosen = arguments(VGPUEnable=True, KnownGeometriesCMName="mine", KnownGeometriesCMNamespace="gpu")
    for name, expected in (("mine", "500"), ("other", "16000")):
        world = Cards(
            nodes=[machine],
            plugins=[chosen],
            others=[device_config(text, name, "gpu")],
            jobs=[pods("p", **limits)],
        )
        (bind,) = [d for d in world.cycle().decisions if isinstance(d, Bind)]
        assert bind.annotations["volcano.sh/vgpu-ids-new"].split(",")[2] == expected
