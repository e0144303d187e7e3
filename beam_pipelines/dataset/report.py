"""Makes the report of a dataset again, of what is on disk."""

from __future__ import annotations

import json

from beam_pipelines.analysis.report import Report, render_report
from beam_pipelines.analysis.statistics.datasets import read_statistics
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.dataset_layout import MANIFEST, REPORT, REPORT_DATA
from beam_pipelines.dataset.manifest import find_manifest
from beam_pipelines.storage import files


def make_report(folder: str) -> str:
    """Returns the report of a dataset, as its run wrote it.

    Args:
      folder: of the dataset, or of a description.

    Raises:
      DataError: a file is damaged or missing: there is no dataset, or an earlier version made it.
    """
    manifest, path = find_manifest(folder), files.join(folder, REPORT_DATA)
    if manifest is None:
        raise DataError(
            f"{folder}: found no {MANIFEST}, expected a dataset, or the output of 'describe'."
        )
    if not files.exists(path):
        raise DataError(
            f"{folder}: found no {REPORT_DATA}, of which the report is made; versions before 0.2 "
            f"wrote none. Take {REPORT}, or convert again with --overwrite."
        )
    found = read_statistics(folder)
    splits = {name: found[name] for name in manifest.splits}
    try:
        return render_report(Report(manifest, splits, json.loads(files.read_bytes(path))))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            f"{path}: found {error!r}, expected what the report shows. Convert again with "
            "--overwrite."
        ) from error
