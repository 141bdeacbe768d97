"""Authorization: RBAC, default roles, escalation checks."""
