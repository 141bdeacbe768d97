"""The scheduler's plugins: every module or package here is the plugin of that name."""
