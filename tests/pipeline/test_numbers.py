"""Numbers of files stay what they are, or an alert says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import beam_pipelines as bp
from beam_pipelines.core.errors import DataError
from beam_pipelines.pipeline.planning.policy import PolicyOptions
from tests.support.tables import write_table

pytestmark = pytest.mark.end_to_end

ROWS = 200
TABLE = pa.table(
    {
        "user": [None if row % 10 == 0 else 100000000.0 + row % 20 for row in range(ROWS)],
        "t": [1700000000 + row * 0.25 for row in range(ROWS)],
        "g": [None if row % 10 == 5 else f"k{row % 7}" for row in range(ROWS)],
        "v": [-999.0 if row % 3 == 0 else row + 0.5 for row in range(ROWS)],
        "y": [row % 2 for row in range(ROWS)],
    }
)
RECIPE = """
name: numbers
sources: {rows: {path: PATH, nulls: ["", "-999"]TYPES}}
derive: {DERIVE}
encode:
  id: [{column: user}, {cast: int64}, {vocabulary: {num_oov: 1}}]
  tz: [{column: t}, z_score]
  part: [{column: t}, {bucketize: 4}]
split: {train: 0.5, test: 0.5, by: g}
label: y
"""

REMEDIED = RECIPE.replace("encode:", "drop: v\nfilter: g IS NOT NULL\nencode:").replace(
    "  tz: [{column: t}, z_score]\n  part: [{column: t}, {bucketize: 4}]\n", ""
)


def convert(
    folder: Path, suffix: str, types: str = "", derive: str = "one: 1", recipe: str = RECIPE
) -> tuple[Any, Any]:
    """Converts a table as a file; returns dataset and alerts."""
    path = write_table(folder / f"rows.{suffix}", TABLE)
    text = recipe.replace("PATH", path.name).replace("TYPES", types).replace("DERIVE", derive)
    (folder / "recipe.yaml").write_text(text)
    made = bp.convert(str(folder / "recipe.yaml"), str(folder / f"out-{suffix}{len(types)}"))
    manifest = json.loads((Path(made.folder) / "dataset.json").read_text())
    return bp.open(made.folder), manifest["alerts"]


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
def test_encodings_of_files_compute_from_float64(tmp_path: Path, suffix: str) -> None:
    """Every format keeps ids and quarters, and tells what float32 merges."""
    dataset, alerts = convert(tmp_path, suffix)
    rows = dataset.encoder(["id", "tz", "part"])(TABLE)
    assert len(np.unique(rows["id"].values)) == 18
    assert len(np.unique(rows["part"])) == 4
    assert len(np.unique(rows["tz"])) == ROWS
    times = np.array(TABLE["t"])
    train = np.concatenate([batch["t"] for batch in dataset.batches("train", 50, epochs=1)])
    assert len(np.unique(train)) == 1  # as float32
    assert np.corrcoef(times, rows["tz"])[0, 1] == pytest.approx(1)
    told = " ".join(alerts["merged by float32"])
    assert "t: 200 different numbers of sampled rows become 1, as 1700000000 and" in told
    assert "user: 18 different" in told
    assert "'types: {t: text}'" in told
    (key,) = alerts["null split key"]
    assert key.startswith("g: 20 rows without it are in one split")


def test_remedies_of_the_alerts_work(tmp_path: Path) -> None:
    """With the lines that they name, the alerts are gone."""
    types = ", types: {user: int64, t: text}"
    _, alerts = convert(tmp_path, "csv", types, 'w: "NULLIF(v, -999)"', REMEDIED)
    kinds = {"merged by float32", "null split key"}
    assert not kinds & alerts.keys()


@pytest.mark.parametrize("value", [5.5, 2.0**63])
def test_no_integer_is_refused_with_its_place(tmp_path: Path, value: float) -> None:
    """A float64 of Parquet that is no int64 has its place."""
    pq.write_table(pa.table({"c": [5.0, None, value]}), tmp_path / "c.parquet")
    (tmp_path / "recipe.yaml").write_text(
        "name: c\nsources: {c: {path: c.parquet, types: {c: int64}}}\n"
    )
    with pytest.raises(DataError, match=r"c\.parquet, row 3, column 'c': found .* an integer"):
        bp.convert(str(tmp_path / "recipe.yaml"), str(tmp_path / "out"))


def test_new_data_without_a_value_are_transformed(tmp_path: Path) -> None:
    """A column without any value has its declared type, in every format."""
    dataset, _ = convert(tmp_path, "parquet")
    empty = TABLE.slice(0, 3).set_column(0, "user", pa.nulls(3))
    assert not dataset.encoder(["id", "tz"])(empty)["id"].is_present.any()
    floats = empty.set_column(4, "y", empty["y"].cast(pa.float64()))  # as pandas may write it
    pq.write_table(floats, tmp_path / "new.parquet")
    policy = PolicyOptions(allow_anomalies=("user:FEATURE_TYPE_NOT_PRESENT",))
    data, output = str(tmp_path / "new.parquet"), str(tmp_path / "new")
    made = bp.transform(dataset.folder, data, output, policy=policy)
    old, new = (
        json.loads((Path(folder) / "dataset.json").read_text())["columns"]
        for folder in (dataset.folder, made.folder)
    )
    assert new == old
