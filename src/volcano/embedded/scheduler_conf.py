"""Default configuration of the scheduler for the devices of a cluster."""

from volcano.embedded.options import ClusterOptions
from volcano.scheduler.engine.config import shipped

_DEVICE_SHARING = """  - name: deviceshare
    arguments:
      deviceshare.SchedulePolicy: binpack
      deviceshare.ScheduleWeight: 10
"""
_VGPU, _ASCEND = "deviceshare.VGPUEnable", "deviceshare.AscendHAMiVNPUEnable"


def default_conf(options: ClusterOptions) -> str:
    """The shipped configuration; with the plugin `deviceshare` if devices of this cluster are shared."""
    switches = {
        _VGPU: bool(options.local.share_gpus)
        or any(pool.shared_devices.shares_gpus for pool in options.pools),
        _ASCEND: any(pool.shared_devices.npus for pool in options.pools),
    }
    enabled = [f"      {name}: true\n" for name, used in switches.items() if used]
    return shipped() + (_DEVICE_SHARING + "".join(enabled) if enabled else "")
