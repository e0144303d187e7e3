"""The report: one HTML page that needs nothing but a browser."""

from __future__ import annotations

from beam_pipelines.analysis.report.images import choose_images, image_column
from beam_pipelines.analysis.report.page import render_comparison, render_report
from beam_pipelines.analysis.report.sampled import SampledRows
from beam_pipelines.analysis.report.values import (
    ImageSample,
    JoinSummary,
    Report,
    SourceSummary,
    SplitSummary,
)

__all__ = [
    "ImageSample",
    "JoinSummary",
    "Report",
    "SampledRows",
    "SourceSummary",
    "SplitSummary",
    "choose_images",
    "image_column",
    "render_comparison",
    "render_report",
]
