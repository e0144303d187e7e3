"""Tests that run TFX."""
