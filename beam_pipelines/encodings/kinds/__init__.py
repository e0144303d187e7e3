"""Implements the encodings, one module per kind.

Each has an Arrow and a TensorFlow face.
"""
