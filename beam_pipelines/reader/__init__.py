"""Reads a split as batches of arrays, without TensorFlow or Beam."""
