"""Splits: by hash, time, file or class; samples."""
