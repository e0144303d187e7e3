"""Files of a run are read as they were written."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from beam_pipelines.core.errors import DataError
from beam_pipelines.files.beam.file_checksums import RunFile
from beam_pipelines.sources.files.file_list import store_files
from beam_pipelines.transforms import merged_files
from tests.sources.support import plan_of, write


class Touch:
    """Is pickled as a call that makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.path,)


def test_another_content_is_refused(tmp_path: Path) -> None:
    """One byte more, fewer or changed is an error with the file."""
    stored = RunFile.write(str(tmp_path / "a"), b"content")
    assert stored.read() == b"content"
    for other in (b"content.", b"conten", b"cOntent", b""):
        (tmp_path / "a").write_bytes(other)
        with pytest.raises(DataError, match="a: found other content than this run has written"):
            stored.read()


def test_what_others_write_is_not_unpickled(tmp_path: Path, monkeypatch) -> None:
    """Results, ranges and merged files of others run no code."""
    mark, evil = tmp_path / "ran", pickle.dumps(Touch(tmp_path / "ran"))
    stored = RunFile.write(str(tmp_path / "result"), b"")
    (tmp_path / "result").write_bytes(evil)
    with pytest.raises(DataError, match="found other content"):
        stored.load()
    monkeypatch.setattr("beam_pipelines.sources.files.file_list._MANY_RANGES", 1)
    plan = store_files(plan_of(write(tmp_path / "a.csv", "x\n1\n")), str(tmp_path))
    Path(plan.ranges.stored.path).write_bytes(evil)
    with pytest.raises(DataError, match="found other content"):
        plan.ranges[0]
    with pytest.raises(ValueError, match=r"utf|JSON|Expecting"):
        [*merged_files.parts_of(merged_files._LENGTH.pack(len(evil)) + evil)]
    assert not mark.exists()


@pytest.mark.parametrize("keys", [[0, 63], [("a", 0), ("b", 7)], [(0, 1, 2)], []])
def test_frames_keep_keys_and_payloads(keys: list) -> None:
    """Numbers and tuples come back as they were."""
    parts = [(key, [b"x" * number, b"y"]) for number, key in enumerate(keys)]
    framed = b"".join(map(bytes, merged_files.frame(parts)))
    assert [*merged_files.parts_of(framed)] == [(key, b"".join(own)) for key, own in parts]
