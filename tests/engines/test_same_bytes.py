"""Every runner writes the same bytes.

These are the bytes of examples, statistics, schema, anomalies, transform graph, report and
manifest.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from beam_pipelines.core.errors import DataError
from beam_pipelines.dataset.verify import verify_dataset
from beam_pipelines.pipeline import commit, convert
from beam_pipelines.storage import files
from tests.engines import conversions
from tests.engines.conftest import LOCAL
from tests.engines.engines import Engine
from tests.support import remote_stores

Reference = Callable[[str], Path]

pytestmark = pytest.mark.runners


@pytest.mark.parametrize("name", conversions.CONVERSIONS)
def test_conversions(name, engine, data, reference, tmp_path):
    """Every runner writes the bytes of Beam's local runner, and they verify.

    The conversions have joins, shuffles, sink options, statistics and encodings.
    """
    conversions.convert(name, data, tmp_path / "out", engine.options)
    conversions.assert_same(tmp_path / "out", reference(name))
    assert verify_dataset(str(tmp_path / "out")).rows > 0


def test_in_an_object_store(engine, data, reference, tmp_path):
    """Workers may share an object store only."""
    with remote_stores.s3_store() as store:
        keys = (
            f"--s3_access_key_id={remote_stores.KEY}",
            f"--s3_secret_access_key={remote_stores.SECRET}",
        )
        options = (*store.options, *keys)
        files.use_options(options)
        conversions.convert("shuffled", data, f"{store.url}/out", (*engine.options, *options))
        found = store.download("out", tmp_path)
    conversions.assert_same(found, reference("shuffled"))


def test_transform(engine: Engine, data: Path, reference: Reference, tmp_path: Path) -> None:
    """Every runner transforms new data with a dataset's encodings alike."""
    conversions.transform(reference("everything"), data, tmp_path / "out", engine.options)
    conversions.assert_same(tmp_path / "out", reference("transform"))


def test_describe(engine: Engine, data: Path, reference: Reference, tmp_path: Path) -> None:
    """``describe``, which writes no examples, gives the same on every runner."""
    conversions.describe(data, tmp_path / "out", engine.options)
    conversions.assert_same(tmp_path / "out", reference("describe"))


def test_resume(engine, data, reference, tmp_path, monkeypatch):
    """Any runner resumes the shards that a local run has finished.

    The dataset is that of a single run.
    """
    with monkeypatch.context() as patch:
        patch.setattr(commit, "check_written", _refuse)
        with pytest.raises(DataError, match="finished: run again with --resume"):
            conversions.convert("source_order", data, tmp_path / "out", LOCAL)
    notes = sorted((tmp_path / "out" / "_temporary" / "finished").glob("*.json"))
    assert len(notes) > 2
    notes[0].unlink()  # so that one shard is left to write
    left = inodes_of_shards(tmp_path / "out")
    conversions.convert("source_order", data, tmp_path / "out", engine.options, resume=True)
    conversions.assert_same(tmp_path / "out", reference("source_order"))
    assert len(left & inodes_of_shards(tmp_path / "out")) == len(notes) - 1


def inodes_of_shards(folder: Path) -> set[int]:
    """Returns the identity of each shard's file.

    The shards are in a dataset, or in its temporary folder. The identity differs for another file
    of the same name.
    """
    found = [path for path in folder.rglob("*-of-*") if path.parent.parent.name == "examples"]
    return {path.stat().st_ino for path in found}


def _refuse(*_: object) -> None:
    raise DataError("refused")


def test_errors(engine: Engine, tmp_path: Path) -> None:
    """Every runner reports a bad row alike and leaves nothing."""
    rows = [f"{number},x" for number in range(5_000)]
    rows[4_321] = "4321,x,y"
    (tmp_path / "d.csv").write_text("a,b\n" + "\n".join(rows) + "\n")
    plan = conversions.plan_of("name: d\nsources: {d: d.csv}\n", tmp_path)
    with pytest.raises(DataError, match=r"^\S*d\.csv, line 4323: .*3 .*2"):
        convert.convert(plan, str(tmp_path / "out"), beam_options=engine.options, quiet=True)
    assert not any(path.is_file() for path in (tmp_path / "out").rglob("*"))
