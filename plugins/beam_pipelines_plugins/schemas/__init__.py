"""Schemas as commands infer, widen and compare them, and that of recipes."""
