"""Checks that every Beam runner writes the bytes of Beam's local runner."""
