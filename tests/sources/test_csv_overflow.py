"""Records of far too many cells never reach pyarrow.

An older pyarrow writes past its buffers for them.
"""

from __future__ import annotations

import pytest

from beam_pipelines.core.errors import DataError
from beam_pipelines.sources.csv import infer, sample
from tests.sources.support import plan_of, read_rows, write


@pytest.mark.parametrize("cells", [3, 12_000, 100_000])
def test_a_record_of_too_many_cells_does_not_reach_pyarrow(tmp_path, monkeypatch, cells):
    """It is a bad row when it is read."""
    path = write(tmp_path / "a.csv", "a,b\n1,2\n" + "," * (cells - 1) + "\n")
    seen = []
    read = sample.pa_csv.read_csv
    monkeypatch.setattr(infer, "OVERFLOWS", True)
    monkeypatch.setattr(
        sample.pa_csv,
        "read_csv",
        lambda file, **options: seen.append(file.size()) or read(file, **options),
    )
    assert plan_of(path).read_schema.names == ["a", "b"]
    assert max(seen) < 10
    with pytest.raises(DataError, match=f"line 3: found {cells} cells, expected 2"):
        read_rows(path)


def test_delimiters_inside_quotes_are_no_cells(tmp_path, monkeypatch):
    """Any number of delimiters inside quotes makes no cells."""
    path = write(tmp_path / "a.csv", 'a,b\n1,"' + "," * 50_000 + '"\n')
    monkeypatch.setattr(infer, "OVERFLOWS", True)
    assert read_rows(path) == [{"a": 1, "b": "," * 50_000}]
