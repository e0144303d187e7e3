"""Indexes of the files of other writers."""
