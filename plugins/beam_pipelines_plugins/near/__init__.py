"""Finds rows with similar texts and images."""
