"""Tables that only pandas reads are refused, and the remedy works."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from beam_pipelines.core.errors import DataError
from tests.sources.support import plan_of, read_rows

TABLE = pd.DataFrame({"n": [1, 2], "t": ["a", "b"]})


@pytest.mark.parametrize(
    ("name", "write", "found"),
    [
        ("a.pkl", TABLE.to_pickle, "found a pickle, which is not read"),
        ("A.PICKLE", TABLE.to_pickle, "found a pickle, which is not read"),
        ("a.dta", lambda path: TABLE.to_stata(path, write_index=False), "found a table of Stata, which is not read"),
    ],
)  # fmt: skip
def test_the_remedy_makes_parquet(tmp_path: Path, monkeypatch, name: str, write, found) -> None:
    """The line in the error makes a file that is read."""
    write(tmp_path / name)
    with pytest.raises(DataError, match=found) as caught:
        plan_of(tmp_path / name)
    line = str(caught.value).partition("read this: ")[2]
    assert line.startswith(f"pandas.read_{'stata' if name.endswith('dta') else 'pickle'}('{name}')")
    monkeypatch.chdir(tmp_path)
    eval(line, {"pandas": pd})  # noqa: S307
    assert read_rows(tmp_path / f"{name}.parquet") == [{"n": 1, "t": "a"}, {"n": 2, "t": "b"}]
