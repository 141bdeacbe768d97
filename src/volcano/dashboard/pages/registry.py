"""All pages, in the order of the navigation."""

from volcano.dashboard.pages import node, nodes, overview, queue, queues, simulator, usage
from volcano.dashboard.pages.jobs import listing
from volcano.dashboard.pages.jobs import page as job
from volcano.dashboard.pages.page import Page
from volcano.dashboard.pages.scheduler import cycles
from volcano.dashboard.pages.scheduler import page as scheduler
from volcano.dashboard.pages.submit import page as submit

PAGES = (
    Page("Overview", "dashboard", ("/",), overview.build, "o"),
    Page("Queues", "account_tree", ("/queues",), queues.build, "q"),
    Page("Queue", "account_tree", ("/queues/{name}",), queue.build, navigation=False),
    Page("Jobs", "work", ("/jobs",), listing.build, "j"),
    Page("Job", "work", ("/jobs/{namespace}/{name}",), job.build, navigation=False),
    Page("Nodes", "dns", ("/nodes",), nodes.build, "n"),
    Page("Node", "dns", ("/nodes/{name}",), node.build, navigation=False),
    Page("Scheduler", "schedule", ("/scheduler",), scheduler.build, "s"),
    Page("Cycle", "schedule", ("/scheduler/cycles/{number}",), cycles.build_cycle, navigation=False),
    Page("Submit", "add_box", ("/submit",), submit.build, "c"),
    Page("Usage", "bar_chart", ("/usage",), usage.build, "u"),
    Page("Simulator", "science", ("/simulator",), simulator.build, "m"),
)
