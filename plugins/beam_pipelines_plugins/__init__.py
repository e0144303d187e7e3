"""Formats and commands that beam-pipelines finds by entry point."""
