"""Joins of rows with an index: by key, by time, of windows."""
