"""The TFX component and its spans."""
