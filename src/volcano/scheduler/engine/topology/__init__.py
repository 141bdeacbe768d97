"""Network topology: domains of nodes, and jobs and sub-groups that are placed inside one."""
