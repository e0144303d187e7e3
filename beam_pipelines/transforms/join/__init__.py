"""Joins: plan, broadcast index, hash join."""
