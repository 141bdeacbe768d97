"""One decoding for many readers: brains in one process share the manifests they are told of."""

from collections import OrderedDict

import orjson

from volcano.kube.manifest import Manifest

# Watchers of one process hear of a change within a few turns of the loop; more need not be remembered.
REMEMBERED = 2048


class SharedDecoder:
    """Decodes like `orjson.loads`, but hands the same manifest to everybody who asks about the same bytes.

    For use as the `decode` of mirrors whose sinks never change what they are given. An in-process server tells its
    watchers of a change with one and the same bytes object, whose hash Python keeps: finding it again costs nothing.
    """

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._manifests: OrderedDict[bytes, Manifest] = OrderedDict()

    def __call__(self, data: bytes) -> Manifest:
        manifest = self._manifests.get(data)
        if manifest is None:
            manifest = orjson.loads(data)
            self._manifests[data] = manifest
            if len(self._manifests) > self._remembered:
                self._manifests.popitem(last=False)
        return manifest
