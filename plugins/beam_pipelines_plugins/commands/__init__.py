"""The command ``init``."""
