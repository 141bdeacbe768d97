"""`vcctl usage`: who used which resources for how long, and what it costs."""
