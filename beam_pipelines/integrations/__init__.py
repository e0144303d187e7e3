"""Entry points for other programs: Beam pipelines and TFX."""
