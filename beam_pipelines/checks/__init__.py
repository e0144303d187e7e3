"""Checks of rows: each is a value that the spine loops over."""
