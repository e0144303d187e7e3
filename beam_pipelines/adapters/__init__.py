"""A dataset's batches and rows for the data loaders of other packages.

Each module imports one package, which must be installed. None imports Beam or TensorFlow.
"""
