"""Job plugins: what a job may ask to have wired into its pods."""
