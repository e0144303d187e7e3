"""The commands ``init`` and ``index``."""
