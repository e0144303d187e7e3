"""No element that crosses an engine is larger than 1 MiB.

Elements are measured where Flink and Spark materialize them.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from beam_pipelines.files.beam import files
from beam_pipelines.pipeline import convert
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.transforms.exchange import MAX_ELEMENT_BYTES
from tests.support.crossings import STEPS, measured

pytestmark = pytest.mark.end_to_end

ROWS = 40_000
SOURCES = (
    "name: d\nsources:\n  left: {path: left.csv, key: id}\n  right: {path: right.csv, key: "
    "id}\nfrom: left\n"
)
JOIN = "join: [{source: right, on: id, prefix: r_, strategy: hash}]\n"
RECIPES = {
    "joined": f"{SOURCES}{JOIN}split: {{train: 0.9, eval: 0.1}}\nstatistics: {{slice_by: group}}\n",
    "grouped": "name: d\nsources: {left: {path: left.csv}}\nsequence: {group_by: group, order_by: id}\n",
    "encoded": f"{SOURCES}{JOIN}encode: {{word: vocabulary, number: [{{fill: median}}, {{bucketize: 50}}], r_text: {{hash_bucket: 1000}}}}\n",
    "rejected": "name: d\nsources: {bad: {path: bad.csv, types: {a: int64}}}\non_error: {reject: 20000}\n",
    "large_rows": "name: d\nsources: {large: {path: large.jsonl}}\noutput: {num_shards: 2}\n",
    "one_column": "name: d\nsources: {left: {path: left.csv, columns: [id]}}\noutput: {shuffle: false}\n",
}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of some megabytes, and rows larger than an element may be."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(1)
    words = pa.array([f"word {number} of many" for number in rng.permutation(ROWS).tolist()])
    texts = pa.array([f"a text {number} " * 8 for number in rng.integers(0, 10**9, ROWS).tolist()])
    left = {
        "id": rng.permutation(ROWS),
        "word": words,
        "number": rng.normal(size=ROWS),
        "group": rng.integers(0, 40, ROWS),
    }
    pa.csv.write_csv(pa.table(left), folder / "left.csv")
    pa.csv.write_csv(pa.table({"id": rng.permutation(ROWS), "text": texts}), folder / "right.csv")
    cells = [f"{number if number % 4 else 'x' * 200},{number}" for number in range(ROWS)]
    (folder / "bad.csv").write_text("\n".join(["a,b", *cells]) + "\n")
    large = [
        {"id": number, "text": "".join(map(chr, rng.integers(97, 123, 3 << 20)))}
        for number in range(3)
    ]
    (folder / "large.jsonl").write_text("\n".join(map(json.dumps, large)) + "\n")
    return folder


@pytest.mark.parametrize("merges", [False, True])
@pytest.mark.parametrize("name", RECIPES)
def test_no_element_is_too_large(name, merges, data, tmp_path, monkeypatch):
    """All data cross the engine in small elements.

    These are rows of 3 MiB, joins, groups, vocabularies, rejected rows and statistics.
    """
    monkeypatch.setattr(files, "is_object", lambda path: merges and "_temporary/" in path)
    recipe = parse_recipe(RECIPES[name], "recipe.yaml", str(data))
    with measured(tmp_path / "sizes") as largest:
        options = ["--runner=FnApiRunner", "--direct_num_workers=1"]
        convert.convert(make_plan(recipe), str(tmp_path / "out"), beam_options=options, quiet=True)
    assert any("DealChunks/Group" in step for step in largest)
    assert any("MergeFiles/Spread" in step for step in largest) == merges
    assert {*largest} >= {*STEPS} - {"Convert/FirstPass/ReadSplits/Read/Read"}
    assert {step: size for step, size in largest.items() if size > MAX_ELEMENT_BYTES} == {}


def test_what_is_measured_is_seen(data: Path, tmp_path: Path) -> None:
    """The measurement finds a step with a side input that takes chunks."""
    import apache_beam as beam

    with measured(tmp_path / "sizes") as largest, beam.Pipeline("FnApiRunner") as p:
        side = beam.pvalue.AsList(p | "Side" >> beam.Create([b"s" * 10]))
        elements = p | "Main" >> beam.Create([b"x" * (2 * MAX_ELEMENT_BYTES)])
        _ = elements | "Step" >> beam.Map(lambda element, _: len(element), side)
    assert largest["Step"] > 2 * MAX_ELEMENT_BYTES
    assert 10 < largest["Step (side input)"] < 100
