"""The process: interpreters, locks, signals, pickles, plugins."""
