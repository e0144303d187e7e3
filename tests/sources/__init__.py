"""Tests of the formats that can be read."""
