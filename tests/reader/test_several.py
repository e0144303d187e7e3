"""Several datasets are read as one."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import beam_pipelines as bp
from beam_pipelines.core.errors import DataError
from beam_pipelines.reader import order
from tests.reader.datasets import write_records
from tests.reader.indexed import finish, ids
from tests.support.small_dataset import SCHEMA, columns_of, write_dataset
from tests.support.wire import example

# Folder -> rows of its shards. Rows are numbered through.
SHARDS = {"day-1": [30, 0, 20], "day-2": [13], "day-3": [40, 1, 16]}
ROWS = 120
INT = 'feature { name: "id" type: INT presence { min_fraction: 1 } shape { dim { size: 1 } } }'


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Makes windows of about eight parts."""
    monkeypatch.setattr(order, "WINDOW_BYTES", 12_000)


def write_numbered(folder: Path, shards: list[int], first: int, compression: str = "gzip") -> str:
    """Writes a dataset whose rows are numbered from one on."""
    folder.mkdir(parents=True)

    def more(numbers):
        return columns_of(range(numbers.start + first, numbers.stop + first))

    return finish(write_dataset(folder, shards, compression, more=more))


@pytest.fixture(scope="module")
def days(tmp_path_factory):
    """A folder with three datasets, of two compressions, and all in one."""
    root, first = tmp_path_factory.mktemp("days"), 0
    for name, shards in SHARDS.items():
        compression = "none" if name == "day-2" else "gzip"
        write_numbered(root / name, shards, first, compression)
        first += sum(shards)
    write_numbered(root / "whole", [rows for shards in SHARDS.values() for rows in shards], 0)
    (root / "day-unfinished").mkdir()
    return root


def of_ranks(dataset, ranks, state, steps, **options):
    """Returns the ids of global batches, and the state behind them."""
    readers = [
        dataset.batches(
            "train", 24 // ranks, rank=rank, world_size=ranks, columns=["id"], epochs=2, **options
        )
        for rank in range(ranks)
    ]
    for reader in readers:
        if state is not None:
            reader.load_state_dict(state)
    found = [[n for one in readers for n in next(one)["id"].tolist()] for _ in range(steps)]
    states = [reader.state_dict() for reader in readers]
    assert all(one == states[0] for one in states)
    for reader in readers:
        reader.close()
    return found, json.loads(json.dumps(states[0]))


@settings(max_examples=8)
@given(st.data())
def test_several_are_one_with_all_shards(days, data):
    """Batches are those of one dataset with all shards, for any ranks."""
    ranks, others = data.draw(st.sampled_from([(1, 1), (1, 4), (4, 1), (2, 3), (12, 6)]))
    options = {
        "shuffle": data.draw(st.booleans()),
        "seed": data.draw(st.integers(0, 3)),
        "remainder": data.draw(st.sampled_from(["short", "drop", "pad"])),
    }
    one, several = bp.open(days / "whole"), bp.open([days / name for name in SHARDS])
    wanted, _ = of_ranks(one, 1, None, 10, **options)
    steps = data.draw(st.integers(0, 10))
    before, state = of_ranks(several, ranks, None, steps, **options)
    after, _ = of_ranks(several, others, state, 10 - steps, **options)
    assert [sorted(batch) for batch in before + after] == [sorted(batch) for batch in wanted]
    assert sorted(np.concatenate(wanted[:5])) == list(range(ROWS))
    assert len(json.dumps(state)) <= 200


def test_patterns_and_lists(days, monkeypatch):
    """A pattern finds finished datasets, sorted; a list keeps its order."""
    monkeypatch.chdir(days)
    found = bp.open("day-*")
    assert found.folders == ("day-1", "day-2", "day-3")
    assert found.splits == {"train": ROWS, "eval": 0}
    assert repr(found) == "Dataset('day-1 and 2 more', train: 120 rows, eval: 0 rows)"
    assert len(found.batches("train", 50)) == 3
    assert bp.open(["day-3", "day-[12]/"]).folders == ("day-3", "day-1", "day-2")
    backwards = bp.open(["day-3", "day-1"]).batches("train", 107, shuffle=False, columns=["id"])
    assert next(backwards)["id"].tolist() == [*range(63, ROWS), *range(50)]
    assert bp.open([days / "day-1"]).folders == (str(days / "day-1"),)
    for folders, message in (
        ([], "found an empty list"),
        (["day-1", "./day-1"], "found it 2 times, expected each dataset once"),
        (["day-*", "day-2"], "found it 2 times"),
    ):
        with pytest.raises(ValueError, match=message):
            bp.open(folders)
    for folders, message in (
        ("week-*", r"week-\*: found no folder with a dataset.json"),
        (["day-1", "day-9"], "day-9: found no dataset.json"),
        ("https://example.org/day-*", "a web server does not list its files"),
    ):
        with pytest.raises(DataError, match=message):
            bp.open(folders)


def test_a_folder_may_have_the_characters_of_a_pattern(days, tmp_path):
    """A folder that is there is no pattern."""
    shutil.copytree(days / "day-2", tmp_path / "a[1]*")
    assert bp.open(tmp_path / "a[1]*").splits["train"] == 13


def test_what_several_datasets_have(days):
    """Features and first rows are there; files of one dataset are not."""
    found = bp.open(str(days / "day-*"))
    assert list(found.features) == ["id", "half", "words", "odd"]
    assert found.head(60)["id"].to_pylist() == [[number] for number in range(60)]
    for what in ("statistics", "report"):
        with pytest.raises(ValueError, match=rf"{what}: found 3 .* bp.open\('.*day-1'\).{what}"):
            getattr(found, what)


def test_splits_are_those_of_all(tmp_path):
    """A split has the rows of each dataset that has it."""
    records = [example({"id": ("int64", [number])}) for number in range(20)]
    for name, split in (("a", "train"), ("b", "test"), ("c", "train")):
        (tmp_path / name).mkdir()
        write_records(tmp_path / name, INT, records)
        if split == "test":
            path = tmp_path / name / "dataset.json"
            manifest = json.loads(path.read_text())
            manifest["splits"] = {"test": manifest["splits"]["train"]}
            path.write_text(json.dumps(manifest))
            index = tmp_path / name / "index"
            os.replace(index / "Split-train.arrow", index / "Split-test.arrow")
    found = bp.open(str(tmp_path / "*"))
    assert found.splits == {"train": 40, "test": 20}
    assert sorted(np.concatenate(ids(found.batches("test", 7)))) == list(range(20))
    assert len(ids(found.batches("train", 40))[0]) == 40


def test_a_state_knows_its_folders(days):
    """A state is refused once a dataset is added."""
    folders = [days / "day-1", days / "day-2"]
    reader = bp.open(folders).batches("train", 16, columns=["id"])
    next(reader)
    state = reader.state_dict()
    for others in ([*folders, days / "day-3"], folders[::-1], folders[:1]):
        with pytest.raises(DataError, match="Open the folders that the state's reader had, in the"):
            bp.open(others).batches("train", 16, columns=["id"]).load_state_dict(state)
    again = bp.open(folders).batches("train", 16, columns=["id"])
    again.load_state_dict(state)
    assert ids(again) == ids(reader)


@pytest.mark.parametrize(
    ("schema", "manifest", "message"),
    [
        (SCHEMA.replace('"odd" type: INT', '"odd" type: FLOAT'), {},
         r"feature 'odd': float, shape \[\], never missing; expected int64, .* as in .*day-1\. Make it"),
        (SCHEMA.replace("min_fraction: 1 min_count: 1 } shape { dim { size: 1 } }", "}", 1), {},
         r"'id': int64, a list; expected int64, shape \[\], never"),
        (SCHEMA.replace('"half"', '"third"'), {}, "found feature 'half': none; expected float"),
        (SCHEMA + INT.replace('"id"', '"more"'), {}, "found feature 'more': int64.* expected none"),
        (SCHEMA, {"label": "id"}, "found the label id, expected odd as in .*day-1"),
        (SCHEMA, {"labels": {"odd": ["a", "b"]}}, "found the labels .* expected {}"),
        (SCHEMA, {"record": "raw"}, "found the record raw, expected example"),
        (SCHEMA, {"format": "parquet"}, "found the format parquet, expected tfrecord"),
        (SCHEMA, {"encodings": "sha256:1", "recipe": {"encode": {"half": [["z_score", {}]]}}},
         "encodings than in .*day-1, of the recipe's 'encode.half'.* transform .*day-1 …"),
    ],
)  # fmt: skip
def test_datasets_that_do_not_go_together(days, tmp_path, schema, manifest, message):
    """Another schema, label or encoding is refused by its name."""
    folder = tmp_path / "day-4"
    folder.mkdir()
    finish(write_dataset(folder, [5], schema=schema), **manifest)
    with pytest.raises(ValueError, match=message):
        bp.open([days / "day-1", folder])


def test_encodings_that_were_fitted_on_other_data(days, tmp_path):
    """Equal recipes do not make equal encodings."""
    recipe = {"encode": {"half": [["z_score", {}]], "id": [["vocabulary", {}]]}}
    for name, mean in (("a", 1.0), ("b", 2.0)):
        shutil.copytree(days / "day-1", tmp_path / name)
        path = tmp_path / name / "dataset.json"
        fields = {"recipe": recipe, "encodings": f"sha256:{mean}"}
        path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    with pytest.raises(ValueError, match=r"/b: found other encodings than in .*/a, of other data,"):
        bp.open(str(tmp_path / "*"))


def test_tensorflow_loads_several(days):
    """``bp.load`` and ``bp.open`` take the same lists and patterns."""
    pytest.importorskip("tensorflow")
    found = bp.open(str(days / "day-[13]"))
    assert found.folders == (str(days / "day-1"), str(days / "day-3"))
    assert found.splits["train"] == 107
    files = found.shards("train")
    assert len(set(files)) == len(files) > 1
    assert {path.split("/examples/")[0] for path in files} == set(found.folders)
    loaded = bp.load(
        str(days / "day-[13]"), "train", batch_size=200, label=False, features=["id"], shuffle=False
    )
    ((numbers,),) = (batch.values() for batch in loaded)
    assert numbers.numpy().reshape(-1).tolist() == [*range(50), *range(63, ROWS)]
    assert len(bp.load(str(days / "day-*"), "train", batch_size=1)) == ROWS
    with pytest.raises(DataError, match="found no folder with a"):
        bp.load(str(days / "week-*"), "train")
