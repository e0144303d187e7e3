"""Finds seven kinds of personal data in columns."""
