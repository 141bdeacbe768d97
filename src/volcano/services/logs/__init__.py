"""Following and reading the logs of the containers of a job."""
