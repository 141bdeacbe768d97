"""Resources that pods request, and the quotas and budgets that limit them."""
