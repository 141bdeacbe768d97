"""Tests of accounting controllers."""
