"""Breaks conversions on purpose, and checks what remains.

docs/faults.md has the outcomes.
"""
