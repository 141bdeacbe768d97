"""batch/v1 Job controller: runs pods until enough have succeeded or too many have failed."""
