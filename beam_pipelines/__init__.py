"""Raw tables in, training-ready TFRecord datasets out."""

__version__ = "0.1.0"
