"""Validation rules: one module for each kind of rule; none reads data."""
