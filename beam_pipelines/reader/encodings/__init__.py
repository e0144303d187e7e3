"""A dataset's encodings for raw rows, and facts of its features."""
