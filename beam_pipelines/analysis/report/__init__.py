"""The report: one HTML page that needs nothing but a browser."""

from __future__ import annotations

from beam_pipelines.analysis.report.images import ImageSample, choose_images, image_column
from beam_pipelines.analysis.report.page import render_report
from beam_pipelines.analysis.report.sampled import SampledRows
from beam_pipelines.analysis.report.values import Report, ReportData

__all__ = [
    "ImageSample",
    "Report",
    "ReportData",
    "SampledRows",
    "choose_images",
    "image_column",
    "render_report",
]
