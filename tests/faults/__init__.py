"""Breaks conversions on purpose, and looks at what is left: docs/reliability.md has the
outcomes.
"""
