"""Two datasets, descriptions, recipes or data files compared by their statistics."""

from beam_pipelines_plugins.comparison.datasets import DataComparison, compare_data

__all__ = ["DataComparison", "compare_data"]
