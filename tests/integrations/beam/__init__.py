"""Tests of the stages as a library."""
