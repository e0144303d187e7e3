"""TFRecord files as a source."""
