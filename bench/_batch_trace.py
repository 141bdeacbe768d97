"""A generated trace as of a batch system: sizes in powers of two, long-tailed run times, walltimes of users."""

from random import Random

from volcano.simulate.workload import GIB, Attempt, Requests, SimNode, SimQueue, TraceJob, TraceTask, Workload

CORES = 16
SIZES = (1, 1, 1, 1, 2, 2, 4, 8, 16, 32)  # pods of a whole node; half of the nodes at most
LONGEST = 24 * 3600.0
MEDIANS = (300.0, 900.0, 3600.0, 2 * 3600.0)  # seconds, of the applications of users
SPREAD = 0.35  # of the logarithm of the run times of one application
OVERESTIMATES = (1.2, 1.5, 2.0, 3.0, 5.0)


def batch_trace(
    jobs: int, nodes: int, *, load: float, seed: int, with_walltime: float = 1.0, fifo: bool = False
) -> Workload:
    """Jobs that request `load` of the nodes on average; a share of them has a walltime. Every user runs a few
    applications, each with its size, its usual run time and its walltime."""
    random = Random(seed)
    users = [
        [
            (
                min(random.choice(SIZES), nodes // 2),
                random.choice(MEDIANS) * random.uniform(0.7, 1.4),
                random.choice(OVERESTIMATES),
                random.random() < with_walltime,
            )
            for _ in range(random.randint(1, 3))
        ]
        for _ in range(24)
    ]
    found = []
    work = 0.0
    for number in range(jobs):
        user = random.randrange(len(users))
        size, median, overestimate, limited = random.choice(users[user])
        seconds = min(random.lognormvariate(0.0, SPREAD) * median, LONGEST)
        walltime = max(median * overestimate, seconds) * 1.05
        work += size * seconds
        task = TraceTask(Requests(cpu=float(CORES), memory=GIB), size)
        found.append(
            (f"job-{number}", (task,), (Attempt(seconds),), f"user-{user}", walltime if limited else None)
        )
    span = work / (nodes * load)
    arrivals = sorted(random.uniform(0.0, span) for _ in found)
    traced = [
        TraceJob(name, at, tasks, attempts, user=user, walltime=walltime)
        for at, (name, tasks, attempts, user, walltime) in zip(arrivals, found, strict=True)
    ]
    machines = tuple(SimNode(f"node-{i}", float(CORES), 64 * GIB) for i in range(nodes))
    queue = SimQueue("default", dequeue_strategy="fifo" if fifo else "")
    return Workload(traced, machines, (queue,))
