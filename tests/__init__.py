"""Tests of beam_pipelines."""
