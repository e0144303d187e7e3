"""The PTransforms of a conversion, next to their pure functions."""
