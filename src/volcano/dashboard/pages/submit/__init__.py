"""The page on which jobs are submitted: a form and the same job as YAML, a preview, and the creation."""
