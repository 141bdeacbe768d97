"""Pages of the dashboard, one module each. A page shows what `data` computes and acts with the rights of its viewer."""
