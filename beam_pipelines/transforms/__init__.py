"""The PTransforms of a conversion, each beside its pure function."""
