"""Loaders: small files of each format, and errors that name the file and line."""

from pathlib import Path

import pytest

from volcano.simulate.loaders import load, load_nodes
from volcano.simulate.workload import GIB, MIB, Attempt, TraceError, TraceJob, Workload

OPENB = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
    "creation_time,deletion_time,scheduled_time\n"
)
NODES = "sn,cpu_milli,memory_mib,gpu,model,rack\nn1,32000,65536,2,T4,r1\nn2,64000,131072,0,,r2\n"


def read(tmp_path: Path, text: str, form: str, name: str = "trace") -> Workload:
    path = tmp_path / name
    path.write_text(text)
    return load(path, form)


def only(workload: Workload) -> TraceJob:
    (job,) = workload.jobs
    return job


def test_openb_pods_are_jobs_with_shared_cards(tmp_path: Path) -> None:
    text = OPENB + (
        "p1,6000,12288,1,460,A100|T4,LS,Running,100,700,150\np0,1000,1024,0,0,,BE,Failed,40,50,40\n"
        "p2,1000,1024,2,1000,,BE,Pending,160,200,\n"
    )
    first, second, third = read(tmp_path, text, "openb").jobs
    assert (first.name, first.arrival, first.attempts) == ("p0", 0, (Attempt(10, failed=True),))
    requests = second.tasks[0].requests
    assert (requests.cpu, requests.memory, requests.gpus) == (6, 12288 * MIB, 1)
    assert (requests.gpu_share, requests.gpu_models) == (0.46, ("A100", "T4"))
    assert (second.arrival, second.attempts) == (60, (Attempt(550),))
    assert third.longest_wait == 40, "it was never scheduled"
    assert third.tasks[0].requests.gpu == 2


def test_openb_nodes_keep_further_columns_as_labels(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text(NODES)
    first, second = load_nodes(str(path))
    assert (first.cpu, first.memory, first.gpus, first.gpu_model) == (32, 64 * GIB, 2, "T4")
    assert first.labels == {"rack": "r1"}
    assert second.gpus == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param(
            "p,x,1,0,0,,LS,Running,0,1,0", "trace:2: cpu_milli is 'x', not a number", id="no number"
        ),
        pytest.param("p,1,1,2,500,,LS,Running,0,1,0", "only one card can be shared", id="share of two cards"),
        pytest.param("p,1,1,1,0,,LS,Running,0,1,0", "gpu_milli is 0; it must be from 1", id="empty share"),
        pytest.param("p,1,1,0,0,,LS,Running,9,1,0", "deletion_time 1 is before creation_time 9", id="times"),
        pytest.param("p,1,1", "trace:2: the row has fewer than 11 columns", id="short row"),
        pytest.param("p,-1,1,0,0,,LS,Running,0,1,0", "cpu_milli is -1; it must be 0 or more", id="negative"),
    ],
)
def test_malformed_rows_are_named_by_file_and_line(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(TraceError) as error:
        read(tmp_path, OPENB + line + "\n", "openb")
    assert message in str(error.value)


def test_missing_columns_and_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="column 'cpu_milli' is missing; found name, cpu"):
        read(tmp_path, "name,cpu\n", "openb")
    with pytest.raises(TraceError, match="No such file"):
        load(tmp_path / "none", "openb")
    with pytest.raises(TraceError, match="there is no job"):
        read(tmp_path, OPENB, "openb")


SWF = """; Version: 2
; MaxNodes: 4
; MaxProcs: 32
1 0 5 100 16 -1 1024 16 200 2048 1 7 1 1 3 -1 -1 -1
2 10 -1 -1 8 -1 -1 8 -1 -1 5 7 1 1 -1 -1 -1 -1
3 20 1 50 4 -1 -1 4 -1 -1 0 8 1 1 -1 -1 -1 -1
4 30 1 50 0 -1 -1 -1 -1 -1 1 8 1 1 -1 -1 -1 -1
5 30 1 50 4 -1 -1 4 -1 -1 2 8 1 1 -1 -1 -1 -1
"""


def test_swf_jobs_are_divided_into_pods_of_a_node(tmp_path: Path) -> None:
    found = read(tmp_path, SWF, "swf", "jobs.swf")
    assert [node.cpu for node in found.nodes] == [8] * 4
    first, cancelled, failed = found.jobs
    assert (first.pods, first.tasks[0].requests.cpu, first.tasks[0].requests.memory) == (
        2,
        8,
        2048 * 1024 * 8,
    )
    assert (first.queue, first.user) == ("queue-3", "user-7")
    assert cancelled.longest_wait == 1
    assert failed.attempts == (Attempt(50, failed=True),)
    assert found.notes == ("1 lines about parts of jobs were left out",)


def test_swf_errors_name_the_line(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="trace:2: 3 fields; a job in SWF has 18"):
        read(tmp_path, "; x\n1 2 3\n", "swf")


SACCT = """JobID|User|Partition|Submit|Start|End|Elapsed|State|ReqTRES|NNodes
12|ann|gpu|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-01T01:01:00|01:00:00|COMPLETED|billing=8,cpu=16,gres/gpu=4,mem=64G,node=2|2
12.batch||gpu|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-01T01:01:00|01:00:00|COMPLETED||1
13_1|bob|cpu|2026-01-01T00:00:10|2026-01-01T00:01:00|2026-01-01T00:02:00|00:01:00|PREEMPTED|cpu=2,mem=500M,node=1|1
13_1|bob|cpu|2026-01-01T00:02:00|2026-01-01T00:03:00|2026-01-02T00:03:00|1-00:00:00|TIMEOUT|cpu=2,mem=500M,node=1|1
14|bob|cpu|2026-01-01T00:00:20|Unknown|2026-01-01T00:05:20|00:00:00|CANCELLED by 5|cpu=1,mem=1G,node=1|1
"""


def test_slurm_steps_are_left_out_and_requeued_jobs_have_several_attempts(tmp_path: Path) -> None:
    gang, requeued, cancelled = read(tmp_path, SACCT, "slurm").jobs
    assert (gang.name, gang.pods, gang.queue, gang.user) == ("12", 2, "gpu", "ann")
    requests = gang.tasks[0].requests
    assert (requests.cpu, requests.memory, requests.gpus) == (8, 32 * GIB, 2)
    assert gang.attempts == (Attempt(3600),)
    assert requeued.attempts == (Attempt(60, failed=True), Attempt(86400, failed=True))
    assert cancelled.longest_wait == 300


def test_slurm_errors_name_the_line(tmp_path: Path) -> None:
    text = "JobID|Submit|State|Elapsed\n1|2026-01-01T00:00:00|COMPLETED|soon\n"
    with pytest.raises(TraceError, match="trace:2: Elapsed is 'soon'; it should look like"):
        read(tmp_path, text, "slurm")
    with pytest.raises(TraceError, match="trace:2: Submit is 'yesterday', not a time"):
        read(tmp_path, "JobID|Submit|State|Elapsed\n1|yesterday|COMPLETED|00:00:01\n", "slurm")


PHILLY = """[{"status": "Failed", "vc": "v", "jobid": "application_1", "user": "u",
 "submitted_time": "2017-10-07 01:11:39", "attempts": [
  {"start_time": "2017-10-07 01:12:09", "end_time": "2017-10-07 01:13:09", "detail": [{"ip": "m1", "gpus": ["gpu0"]}]},
  {"start_time": "2017-10-07 02:00:00", "end_time": "2017-10-07 02:00:30",
   "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0"]}]}]},
 {"status": "Killed", "vc": "v", "jobid": "application_2", "user": "u", "submitted_time": "None", "attempts": []}]"""


def test_philly_attempts_are_kept(tmp_path: Path) -> None:
    found = read(tmp_path, PHILLY, "philly")
    job = only(found)
    assert job.attempts == (Attempt(60, failed=True), Attempt(30, failed=True))
    assert [(task.requests.gpus, task.replicas) for task in job.tasks] == [(2, 1), (1, 1)]
    assert job.queue == "v"
    assert found.notes == ("1 jobs without a complete attempt were left out",)
    machines = tmp_path / "machines.csv"
    machines.write_text("machineId,number of GPUs,single GPU mem\nm1,8, 24GB\n")
    assert load_nodes(str(machines))[0].gpus == 8
    with pytest.raises(TraceError, match="not JSON"):
        read(tmp_path, "[", "philly")


def test_helios_and_acme_jobs_are_gangs_of_their_nodes(tmp_path: Path) -> None:
    helios = (
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
        "7,u1,vc1,16,64,2,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:37,2020-06-09 18:45:46,249,10\n"
    )
    job = only(read(tmp_path, helios, "helios"))
    assert (job.pods, job.queue, job.attempts) == (2, "vc1", (Attempt(249, failed=True),))
    assert (job.tasks[0].requests.gpus, job.tasks[0].requests.cpu) == (8, 32)
    acme = (
        "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,type,state,submit_time,duration,queue\n"
        "dlc1,u,8,64,960,1000,Pretrain,COMPLETED,2023-05-17 11:00:58+00:00,18,10.0\n"
    )
    job = only(read(tmp_path, acme, "acme"))
    assert (job.pods, job.queue) == (8, "Pretrain")
    assert job.tasks[0].requests.memory == 1000 * GIB


def test_pai_tasks_are_roles_of_a_job(tmp_path: Path) -> None:
    (tmp_path / "pai_job_table.csv").write_text("j1,i1,user1,Terminated,90.0,300.0\n")
    rows = "j1,ps,1.0,Terminated,100.0,300.0,600.0,29.0,,\nj1,worker,2.0,Terminated,120.0,290.0,400.0,10.0,50.0,T4\n"
    job = only(read(tmp_path, rows, "pai", "pai_task_table.csv"))
    assert [(task.role, task.replicas) for task in job.tasks] == [("ps", 1), ("worker", 2)]
    worker = job.tasks[1].requests
    assert (worker.cpu, worker.gpus, worker.gpu_share, worker.gpu_models) == (4, 1, 0.5, ("T4",))
    assert (job.user, job.attempts) == ("user1", (Attempt(200),))
    (tmp_path / "spec.csv").write_text("m1,T4,64,512,2\n")
    (machine,) = load_nodes(str(tmp_path / "spec.csv"))
    assert (machine.cpu, machine.gpus, machine.gpu_model) == (64, 2, "T4")


YAML = """
nodes:
- {name: gpu, count: 4, cpu: 32, memory: 128Gi, gpus: 4, model: A100, racks: 2}
queues:
- {name: research, weight: 2, capability: {cpu: 64}}
jobs:
- name: train
  queue: research
  count: 3
  arrivals: {every: 30s}
  runTime: 10m
  tasks:
  - {name: worker, replicas: 2, cpu: 500m, memory: 1Gi, gpus: 1, gpuShare: 0.5}
- name: once
  arrivals: {at: [5s]}
  runTime: {exponential: 1m}
  tasks: [{cpu: 1}]
"""


def test_workload_files_have_nodes_queues_and_jobs(tmp_path: Path) -> None:
    found = read(tmp_path, YAML, "yaml")
    assert [job.name for job in found.jobs] == ["train-0", "once", "train-1", "train-2"]
    assert [job.arrival for job in found.jobs] == [0, 5, 30, 60]
    assert found.jobs[0].attempts == (Attempt(600),)
    assert [node.labels["rack"] for node in found.nodes] == ["rack-1", "rack-2", "rack-1", "rack-2"]
    assert found.queues[0].capability == {"cpu": "64"}
    assert found.jobs == read(tmp_path, YAML, "yaml").jobs, "the same file and number give the same workload"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        pytest.param(
            "replicas: 2", "replica: 2", "trace:13: Object contains unknown field `replica`", id="unknown"
        ),
        pytest.param("runTime: 10m", "runTime: soon", "trace:11: time: 'soon' is not a time", id="time"),
        pytest.param("{every: 30s}", "{rate: often}", "trace:10: rate 'often' should be", id="rate"),
        pytest.param("gpuShare: 0.5", "gpuShare: 2", "gpuShare must be above 0 and at most 1", id="share"),
        pytest.param("memory: 128Gi", "memory: lots", "trace:3: 'lots' is not a quantity", id="quantity"),
        pytest.param("- {name: gpu", "- {name: [", "trace:", id="syntax"),
    ],
)
def test_errors_in_workload_files_name_the_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(TraceError) as error:
        read(tmp_path, YAML.replace(old, new), "yaml")
    assert message in str(error.value)


def test_nodes_can_be_a_number_and_a_shape(tmp_path: Path) -> None:
    nodes = load_nodes("3:cpu=32,memory=128Gi,nvidia.com/gpu=8,name=big")
    assert [node.name for node in nodes] == ["big-0", "big-1", "big-2"]
    assert (nodes[0].cpu, nodes[0].gpus) == (32, 8)
    with pytest.raises(TraceError, match="takes a file or COUNT:SHAPE"):
        load_nodes(str(tmp_path / "none.csv"))
    with pytest.raises(TraceError, match="is not of the form"):
        load_nodes("3:big")
