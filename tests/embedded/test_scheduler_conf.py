"""The scheduler's default configuration knows the devices of the cluster."""

from pathlib import Path

import pytest

from volcano.embedded.cluster import default_conf
from volcano.embedded.options import ClusterOptions, LocalNodeOptions
from volcano.nodes.pools import parse_pools
from volcano.scheduler.engine.config import parse, shipped

VGPU, ASCEND = "deviceshare.VGPUEnable", "deviceshare.AscendHAMiVNPUEnable"


@pytest.mark.parametrize(
    ("local", "pool", "enabled"),
    [
        pytest.param(LocalNodeOptions(1), "nvidia.com/gpu=8", None, id="whole cards"),
        pytest.param(LocalNodeOptions(1, share_gpus=4), "cpu=1", {VGPU}, id="shared cards of this host"),
        pytest.param(
            LocalNodeOptions(), "nvidia.com/gpu=8,vgpu=10", {VGPU}, id="shared cards of simulated nodes"
        ),
        pytest.param(LocalNodeOptions(), "ascend=Ascend310P:8", {ASCEND}, id="NPUs"),
        pytest.param(LocalNodeOptions(1, share_gpus=4), "ascend=Ascend310P:8", {VGPU, ASCEND}, id="both"),
    ],
)
def test_devices_are_shared_by_the_plugin_that_is_made_for_it(
    local: LocalNodeOptions, pool: str, enabled: set[str] | None
) -> None:
    text = default_conf(ClusterOptions(Path("/d"), local=local, pools=parse_pools([1], [pool])))
    plugins = {plugin.name: plugin for tier in parse(text).tiers for plugin in tier}
    assert ("deviceshare" in plugins) == (enabled is not None)
    if enabled is None:
        assert text == shipped()
    else:
        arguments = plugins["deviceshare"].arguments
        assert {name for name in (VGPU, ASCEND) if arguments.boolean(name)} == enabled
