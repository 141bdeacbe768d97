"""The list of jobs and the page of one job."""
