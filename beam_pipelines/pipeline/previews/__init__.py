"""Previews and estimates of a run, computed from some rows in memory."""
