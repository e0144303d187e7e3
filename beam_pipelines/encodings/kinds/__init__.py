"""Encodings, one module a kind, each with its NumPy and its TensorFlow face."""
