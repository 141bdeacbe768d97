"""A job's life from creation to its end (scenarios A)."""

from tests.controllers.job.world import job, submit, world


def test_a3_a_plain_job_is_pending_then_running_then_completed() -> None:
    cluster = world()
    submit(cluster, job())
    assert cluster.phase("j") == "Pending"
    cluster.settle()
    assert cluster.phase("j") == "Running"
    cluster.finish("j-main-0", "j-main-1")
    assert cluster.phase("j") == "Completed"
    assert cluster.job("j")["status"]["succeeded"] == 2
