"""Policy objects that admission and controllers evaluate alike: resource quotas and disruption budgets."""
