"""libsvm and libfm text."""
