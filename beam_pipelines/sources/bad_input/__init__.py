"""Rows, values and files that cannot be read, and their words."""
