"""Joins: planning, broadcast index, hash join."""
