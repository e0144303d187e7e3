"""TFRecord files of compressed parts."""
