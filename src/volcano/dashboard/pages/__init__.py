"""Pages of the dashboard, one module each. A page shows what `data` computes and acts through the viewer's session."""
