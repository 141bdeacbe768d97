"""What kubectl prints."""
