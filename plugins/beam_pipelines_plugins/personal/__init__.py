"""Finds twelve kinds of personal data in columns."""
