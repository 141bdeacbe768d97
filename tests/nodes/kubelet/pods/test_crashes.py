"""The kubelet may crash at any time: pods end up in the same state."""

import json
from collections.abc import Sequence

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.nodes.kubelet.pods.bench import KubeletBench, bench, container
from volcano.kube.api.kinds import POD
from volcano.kube.api.manifest import Manifest

Step = tuple[str, int]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("end"), st.integers(0, 8)),
        st.tuples(st.just("wait"), st.sampled_from([1, 3, 11, 25])),
        st.tuples(st.just("delete"), st.integers(1, 5)),
    ),
    min_size=2,
    max_size=7,
)
NAMES = ("s", "a", "b")
CODES = (0, 1, 143)


def pod(policy: str) -> Manifest:
    hook = {"preStop": {"sleep": {"seconds": 1}}}
    return {
        "restartPolicy": policy,
        "terminationGracePeriodSeconds": 4,
        "initContainers": [container("i"), container("s", restartPolicy="Always")],
        "containers": [container("a", lifecycle=hook), container("b")],
    }


async def lived(policy: str, steps: Sequence[Step], crashes: frozenset[int]) -> object:
    """Executes the steps, with a crash of the kubelet after those in `crashes`; returns the final state."""
    async with bench() as it:
        it.runtime.stubborn.add("b")
        await it.create(**pod(policy))
        if "i" in it.runtime.running:
            await it.end("i", 0)
        for place, (what, number) in enumerate(steps):
            await _step(it, what, number)
            if place in crashes:
                await it.stop()
                await it.begin()
                await it.settle()
        # The next kubelet sends TERM to a stopping container again, with a grace period of at least two
        # seconds.
        await it.pass_time(12 if any(what == "delete" for what, _ in steps) else 1)
        return await _seen(it)


async def _step(it: KubeletBench, what: str, number: int) -> None:
    if what == "end":
        live = [name for name in NAMES if name in it.runtime.running]
        if live:
            await it.end(live[number % len(live)], CODES[number % len(CODES)])
    elif what == "wait":
        await it.pass_time(number)
    elif await it.cluster.names(POD):
        await it.cluster.delete(POD, "p", grace=number)
        await it.settle()


async def _seen(it: KubeletBench) -> object:
    if not await it.cluster.names(POD):
        return "gone", it.runtime.running
    status = await it.status()
    entries = [*status["initContainerStatuses"], *status["containerStatuses"]]
    conditions = {c["type"]: c["status"] for c in status["conditions"]}
    shown = [(e["name"], e["restartCount"], e["ready"], e["state"], e["lastState"]) for e in entries]
    uid = (await it.pod())["metadata"]["uid"]
    text = json.dumps([status["phase"], conditions, shown, it.runtime.running])
    return json.loads(text.replace(uid, "its uid"))


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    policy=st.sampled_from(["Always", "OnFailure", "Never"]),
    steps=STEPS,
    crashes=st.frozensets(st.integers(0, 6), min_size=1),
)
async def test_a_pod_is_not_affected_by_kubelet_crashes(
    policy: str, steps: list[Step], crashes: frozenset[int]
) -> None:
    assert await lived(policy, steps, crashes) == await lived(policy, steps, frozenset())
