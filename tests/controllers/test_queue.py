"""Queues open and close, alone and with their parents, and count their PodGroups truly."""

from tests.cluster import SmallCluster
from volcano.controllers.queue import QueueController
from volcano.kube.api.kinds import COMMAND, EVENT, POD_GROUP, QUEUE
from volcano.kube.api.manifest import Manifest, uid_of


async def command(cluster: SmallCluster, queue: str, action: str) -> None:
    target = await cluster.get(QUEUE, queue)
    reference = {"apiVersion": QUEUE.api_version, "kind": "Queue", "name": queue, "uid": uid_of(target)}
    await cluster.create(COMMAND, f"{queue}-{action.lower()}", action=action, target=reference)


async def state(cluster: SmallCluster, queue: str) -> str:
    found: str = (await cluster.get(QUEUE, queue))["status"]["state"]
    return found


async def group(cluster: SmallCluster, name: str, queue: str, phase: str) -> Manifest:
    return await cluster.create(
        POD_GROUP, name, spec={"queue": queue, "minMember": 1}, status={"phase": phase}
    )


async def test_root_and_default_exist_and_a_queue_without_a_parent_is_the_roots_child() -> None:
    async with SmallCluster(QueueController(calm=0)) as cluster:
        assert await cluster.names(QUEUE) == ["default", "root"]
        await cluster.create(QUEUE, "research", spec={"weight": 2})
        queue = await cluster.get(QUEUE, "research")
        assert (queue["spec"]["parent"], queue["status"]["state"]) == ("root", "Open")
        assert (await cluster.get(QUEUE, "root"))["spec"]["reclaimable"] is False


async def test_counters_follow_the_phases_of_pod_groups() -> None:
    async with SmallCluster(QueueController(calm=0)) as cluster:
        for name, phase in (
            ("a", "Pending"),
            ("b", "Inqueue"),
            ("c", "Running"),
            ("d", "Running"),
            ("e", "Completed"),
        ):
            await group(cluster, name, "default", phase)
        status = (await cluster.get(QUEUE, "default"))["status"]
        counts = {
            part: status.get(part, 0) for part in ("pending", "inqueue", "running", "unknown", "completed")
        }
        assert counts == {"pending": 1, "inqueue": 1, "running": 2, "unknown": 0, "completed": 1}
        await cluster.patch(POD_GROUP, "a", {"status": {"phase": "Unknown"}})
        await cluster.delete(POD_GROUP, "c")
        status = (await cluster.get(QUEUE, "default"))["status"]
        assert (status["pending"], status["running"], status["unknown"]) == (0, 1, 1)


async def test_a_pod_group_that_moves_is_counted_where_it_is() -> None:
    async with SmallCluster(QueueController(calm=0)) as cluster:
        await cluster.create(QUEUE, "other", spec={})
        await group(cluster, "a", "default", "Running")
        await cluster.patch(POD_GROUP, "a", {"spec": {"queue": "other"}})
        assert (await cluster.get(QUEUE, "default"))["status"]["running"] == 0
        assert (await cluster.get(QUEUE, "other"))["status"]["running"] == 1


async def test_the_schedulers_part_of_the_status_is_left_alone() -> None:
    async with SmallCluster(QueueController(calm=0)) as cluster:
        await cluster.patch(QUEUE, "default", {"status": {"allocated": {"cpu": "4"}}}, "status")
        await group(cluster, "a", "default", "Running")
        status = (await cluster.get(QUEUE, "default"))["status"]
        assert (status["allocated"], status["running"]) == ({"cpu": "4"}, 1)


async def test_closing_waits_for_the_pod_groups_at_work_and_opening_undoes_it() -> None:
    async with SmallCluster(QueueController(calm=0)) as cluster:
        await cluster.create(QUEUE, "q", spec={})
        await group(cluster, "busy", "q", "Running")
        await group(cluster, "done", "q", "Completed")
        await command(cluster, "q", "CloseQueue")
        assert await state(cluster, "q") == "Closing"
        await cluster.delete(POD_GROUP, "busy")
        assert await state(cluster, "q") == "Closed"
        await command(cluster, "q", "OpenQueue")
        assert await state(cluster, "q") == "Open"
        assert await cluster.names(COMMAND) == []
        assert {e["reason"] for e in await cluster.all(EVENT)} == {"CloseQueue"}


async def test_children_close_and_open_with_their_parent() -> None:
    async with SmallCluster(QueueController(calm=0)) as cluster:
        await cluster.create(QUEUE, "dept", spec={"parent": "root"})
        await cluster.create(QUEUE, "team", spec={"parent": "dept"})
        await cluster.create(QUEUE, "shy", spec={"parent": "dept"})
        await command(cluster, "shy", "CloseQueue")
        await command(cluster, "dept", "CloseQueue")
        assert [await state(cluster, name) for name in ("dept", "team", "shy")] == ["Closed"] * 3
        await command(cluster, "dept", "OpenQueue")
        # What was closed on its own account stays closed.
        assert [await state(cluster, name) for name in ("dept", "team", "shy")] == ["Open", "Open", "Closed"]


async def test_a_child_cannot_open_under_a_closed_parent_but_follows_when_it_opens() -> None:
    async with SmallCluster(QueueController(calm=0)) as cluster:
        await cluster.create(QUEUE, "dept", spec={"parent": "root"})
        await cluster.create(QUEUE, "team", spec={"parent": "dept"})
        await command(cluster, "team", "CloseQueue")
        await command(cluster, "dept", "CloseQueue")
        await command(cluster, "team", "OpenQueue")
        assert await state(cluster, "team") == "Closed"
        await command(cluster, "dept", "OpenQueue")
        assert await state(cluster, "team") == "Open"


async def test_the_root_queue_cannot_be_closed() -> None:
    async with SmallCluster(QueueController(calm=0)) as cluster:
        await command(cluster, "root", "CloseQueue")
        assert await state(cluster, "root") == "Open"


async def test_a_deleted_and_recreated_queue_starts_afresh() -> None:
    async with SmallCluster(QueueController(calm=0)) as cluster:
        await cluster.create(QUEUE, "q", spec={})
        await command(cluster, "q", "CloseQueue")
        await cluster.delete(QUEUE, "q")
        await cluster.create(QUEUE, "q", spec={})
        assert await state(cluster, "q") == "Open"


async def test_an_unchanged_queue_costs_no_write() -> None:
    async with SmallCluster(QueueController(calm=0)) as cluster:
        await group(cluster, "a", "default", "Running")
        before = cluster.registry.store.version
        await cluster.pass_time(30, step=10)
        assert cluster.registry.store.version == before


async def test_a_closed_queue_stays_closed_whatever_appears_in_it() -> None:
    async with SmallCluster(QueueController(calm=0)) as cluster:
        await cluster.create(QUEUE, "q", spec={})
        await command(cluster, "q", "CloseQueue")
        await group(cluster, "late", "q", "Pending")
        status = (await cluster.get(QUEUE, "q"))["status"]
        assert (status["state"], status["pending"]) == ("Closed", 1)


async def test_children_wait_for_a_parent_that_is_not_there() -> None:
    async with SmallCluster(QueueController(calm=0)) as cluster:
        await cluster.create(QUEUE, "dept", spec={"parent": "root"})
        await cluster.create(QUEUE, "team", spec={"parent": "dept"})
        await command(cluster, "dept", "CloseQueue")
        await cluster.delete(QUEUE, "dept")
        assert await state(cluster, "team") == "Closed"
        await cluster.create(QUEUE, "dept", spec={"parent": "root"})
        assert [await state(cluster, name) for name in ("dept", "team")] == ["Open", "Open"]


async def test_a_queue_in_an_unknown_state_moves_by_command_only() -> None:
    async with SmallCluster(QueueController(calm=0)) as cluster:
        await cluster.create(QUEUE, "q", spec={})
        await cluster.patch(QUEUE, "q", {"status": {"state": "Unknown"}}, "status")
        assert await state(cluster, "q") == "Unknown"
        await command(cluster, "q", "OpenQueue")
        assert await state(cluster, "q") == "Open"


async def test_a_command_for_an_older_queue_of_the_same_name_is_dropped() -> None:
    async with SmallCluster() as cluster:
        await cluster.create(QUEUE, "q", spec={})
        await command(cluster, "q", "CloseQueue")
        await cluster.delete(QUEUE, "q")
        await cluster.create(QUEUE, "q", spec={})
        cluster.start(QueueController(calm=0))
        await cluster.rest()
        assert await state(cluster, "q") == "Open"
        assert await cluster.names(COMMAND) == []


async def test_a_queue_created_again_while_groups_wait_for_it_opens_and_counts_them_at_once() -> None:
    async with SmallCluster(QueueController(calm=0)) as cluster:
        await cluster.create(QUEUE, "q", spec={})
        await group(cluster, "a", "q", "Inqueue")
        await cluster.delete(QUEUE, "q")
        await cluster.create(QUEUE, "q", spec={})
        status = (await cluster.get(QUEUE, "q"))["status"]
        assert (status["state"], status["inqueue"]) == ("Open", 1)


async def test_a_pod_group_created_again_is_counted_as_the_new_one() -> None:
    async with SmallCluster(QueueController(calm=0)) as cluster:
        await group(cluster, "a", "default", "Running")
        await cluster.delete(POD_GROUP, "a")
        await group(cluster, "a", "default", "Pending")
        status = (await cluster.get(QUEUE, "default"))["status"]
        assert (status["running"], status["pending"]) == (0, 1)


async def test_counters_alone_wait_for_more_of_their_kind() -> None:
    async with SmallCluster(QueueController()) as cluster:
        written = cluster.registry.store.version
        for name in ("a", "b", "c"):
            await group(cluster, name, "default", "Running")
        assert cluster.registry.store.version == written + 3
        await cluster.pass_time(1.0)
        assert cluster.registry.store.version == written + 4
        assert (await cluster.get(QUEUE, "default"))["status"]["running"] == 3


async def test_the_newest_of_several_commands_of_one_second_decides() -> None:
    async with SmallCluster(QueueController(calm=0)) as cluster:
        await cluster.create(QUEUE, "q", spec={})
        target = {"apiVersion": QUEUE.api_version, "kind": "Queue", "name": "q", "uid": ""}
        head = {"apiVersion": COMMAND.api_version, "kind": COMMAND.kind, "target": target}
        for name, action in (("b", "CloseQueue"), ("a", "OpenQueue")):
            metadata = {"name": name, "namespace": "default"}
            await cluster.client.create(COMMAND, {**head, "metadata": metadata, "action": action})
        await cluster.rest()
        assert await state(cluster, "q") == "Open"
        assert await cluster.names(COMMAND) == []


async def test_closing_the_default_queue_warns_of_the_jobs_that_name_none() -> None:
    async with SmallCluster(QueueController(calm=0)) as cluster:
        await command(cluster, "default", "CloseQueue")
        assert await state(cluster, "default") == "Closed"
        events = (await cluster.client.list(EVENT)).items
        texts = [event["message"] for event in events if event["type"] == "Warning"]
        assert texts == ["jobs that name no queue are rejected until the default queue is opened"]
