"""Profiles of sampled rows, and proposals for a first recipe."""
