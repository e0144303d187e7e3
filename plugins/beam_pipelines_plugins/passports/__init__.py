"""Descriptions of a dataset for other programs, from manifest, schema and statistics."""
