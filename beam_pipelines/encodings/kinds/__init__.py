"""Implements the encodings.

Each has an Arrow and a TensorFlow face.
"""
