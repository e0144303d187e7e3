"""libsvm, libfm and libffm text."""
