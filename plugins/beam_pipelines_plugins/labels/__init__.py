"""Finds what columns say about the label."""
