"""Which pods a drain evicts."""

from tests.dashboard.data.builders import pod
from volcano.kube.api.manifest import Key
from volcano.services.nodes import plan_drain


def test_pods_of_daemonsets_and_static_pods_stay() -> None:
    plan = plan_drain(
        [
            pod("a", "n", {}, job="train"),
            pod("agent", "n", {}, owner="DaemonSet"),
            pod("static", "n", {}, owner="Node", annotations={"kubernetes.io/config.mirror": "1"}),
        ]
    )
    assert plan.evicted == (Key("team", "a"),)
    assert plan.daemon == (Key("team", "agent"), Key("team", "static"))
    assert plan.jobs == ("team/train",)
    assert not plan.is_lossy


def test_the_question_names_what_is_lost() -> None:
    plan = plan_drain(
        [
            pod("bare", "n", {}, owner=""),
            pod("cache", "n", {}, volumes=[{"name": "x", "emptyDir": {}}]),
            pod("done", "n", {}, owner="", phase="Succeeded"),
        ]
    )
    assert plan.is_lossy
    question = plan.question("n")
    assert "evict 3 pods" in question
    assert "No controller creates these pods again: team/bare." in question
    assert "emptyDir volumes of these pods are lost: team/cache." in question


def test_a_node_without_pods_is_only_cordoned() -> None:
    assert plan_drain([]).question("n") == "Cordon node n? It has no pods to evict."
