"""`vcctl fairshare` and `vcctl priority`: what the plugin `fairshare` orders queues and jobs by."""
