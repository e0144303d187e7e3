"""Breaks conversions on purpose, and checks what remains.

docs/reliability.md has the outcomes.
"""
