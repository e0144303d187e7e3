"""Conversions at the sizes that engines are for."""
