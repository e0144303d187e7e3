"""Records of far too many cells never reach pyarrow.

An older pyarrow writes past its buffers for them.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from beam_pipelines.sources.csv import sample
from beam_pipelines.sources.text.quotes import Dialect

DIALECT = Dialect(ord(","), ord('"'))


@pytest.mark.parametrize("cells", [3, 12_000, 100_000])
def test_a_record_of_too_many_cells_is_refused(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record of too many cells is refused with pyarrow's error.

    A far too long record does not reach pyarrow.
    """
    data = b"1,2\n" + b"," * (cells - 1) + b"\n"
    seen = []
    read = sample.pa_csv.read_csv
    monkeypatch.setattr(sample, "_OVERFLOWS", True)
    monkeypatch.setattr(
        sample.pa_csv, "read_csv", lambda *args, **options: seen.append(1) or read(*args, **options)
    )
    with pytest.raises(pa.ArrowInvalid, match="Expected 2 columns"):
        sample.read_table(data, ("a", "b"), names=("a", "b"), dialect=DIALECT, nulls=("",))
    assert bool(seen) == (cells < 10_000)


def test_delimiters_inside_quotes_are_no_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any number of delimiters inside quotes makes no cells."""
    data = b'1,"' + b"," * 50_000 + b'"\n'
    monkeypatch.setattr(sample, "_OVERFLOWS", True)
    table = sample.read_table(data, ("a", "b"), names=("a", "b"), dialect=DIALECT, nulls=("",))
    assert table.column("b").to_pylist() == ["," * 50_000]
