"""Sheets of Excel and OpenDocument files."""
