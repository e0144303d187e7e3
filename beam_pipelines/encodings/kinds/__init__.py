"""Encodings, one module per kind, each with an Arrow and a TensorFlow face."""
