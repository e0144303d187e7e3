"""HDF5 files: datasets as columns, groups, ranges, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import Limits
from beam_pipelines.transforms import read
from tests.sources.support import plan_of, problems_of, read_rows, types_of

ROWS = 1_000
TEXT = h5py.string_dtype()


def write(path: Path, datasets: dict[str, Any], **options: Any) -> Path:
    """Writes datasets, whose names may have groups."""
    with h5py.File(path, "w") as file:
        for name, data in datasets.items():
            file.create_dataset(name, data=data, **options)
            file[name].attrs["unit"] = "m"
    return path


def columns() -> dict[str, Any]:
    """Returns datasets of all types."""
    rng = np.random.default_rng(1)
    ragged = np.empty(ROWS, object)
    for row in range(ROWS):
        ragged[row] = np.arange(row % 4, dtype=np.int32)
    return {
        "big": rng.integers(0, 9, ROWS).astype(">i2"),
        "flag": rng.random(ROWS) < 0.5,
        "image": rng.integers(0, 255, (ROWS, 2, 3)).astype(np.uint8),
        "x": rng.random(ROWS),
        "fixed": np.array([f"f{row}" for row in range(ROWS)], "S8"),
        "text": np.array([f"ç {row}" for row in range(ROWS)], TEXT),
        "ragged": ragged,
    }


def write_all(path: Path, **options: Any) -> dict[str, Any]:
    """Writes datasets of all types, and returns them."""
    found = columns()
    with h5py.File(path, "w") as file:
        for name, data in found.items():
            types = {"ragged": h5py.vlen_dtype(np.int32), "text": TEXT}
            file.create_dataset(name, data=data, dtype=types.get(name), **options)
    return found


@pytest.mark.parametrize("options", [{}, {"chunks": True, "compression": "gzip"}])
def test_datasets_are_columns(tmp_path: Path, options: dict[str, Any]) -> None:
    """Numbers, bools, texts, arrays and ragged lists are those of the file."""
    expected = write_all(tmp_path / "a.h5", **options)
    assert types_of(tmp_path / "a.h5") == {
        "big": "int64",
        "fixed": "string",
        "flag": "bool",
        "image": "list<item: int64>",
        "ragged": "list<item: int64>",
        "text": "string",
        "x": "double",
    }
    found = read_rows(tmp_path / "a.h5")
    assert len(found) == ROWS
    for name, data in expected.items():
        values = [row[name] for row in found]
        if name == "image":
            assert values == data.reshape(ROWS, 6).tolist()
        elif name == "ragged":
            assert values == [one.tolist() for one in data]
        elif name == "fixed":
            assert values == [one.decode() for one in data.tolist()]
        else:
            assert values == data.tolist()


@pytest.mark.parametrize("size", [700, 5_000, 40_000])
def test_ranges_give_the_rows_of_the_whole(tmp_path: Path, size: int) -> None:
    """Ranges have whole chunks of rows, each row once and in order."""
    path = write(tmp_path / "a.h5", {"n": np.arange(ROWS), "x": np.ones((ROWS, 5))}, chunks=True)
    plan = plan_of(path, range_bytes=size)
    assert len(plan.ranges) > 1
    assert read_rows(path, range_bytes=size) == read_rows(path)
    with h5py.File(path) as file:
        step = max(file[name].chunks[0] for name in file)
    firsts = {read.format_of(plan).numbering(plan, one)[1] - 1 for one in plan.ranges}
    assert all(first % step == 0 or first == ROWS for first in firsts)


def test_groups(tmp_path: Path) -> None:
    """The root is read, or the group that the run asks for."""
    path = write(tmp_path / "a.h5", {"train/x": [1, 2], "train/y": [3, 4], "test/x": [5]})
    [message] = problems_of(path).values()
    [group] = re.findall(r"'group: (.*?)'", message)
    assert read_rows(path, group=group) == [{"x": 5}]
    assert read_rows(path, group="/train/") == [{"x": 1, "y": 3}, {"x": 2, "y": 4}]
    found = problems_of(path, group="eval")["sources", "s", "group"]
    assert "in the group 'eval'" in found
    assert "The groups in '/' are test, train." in found
    path = write(tmp_path / "b.h5", {"deep/er/x": [1]})
    assert "'group: deep/er'" in problems_of(path, group="deep")["sources", "s", "group"]
    assert read_rows(path, group="deep/er") == [{"x": 1}]
    path = write(tmp_path / "c.h5", {"x": [1], "meta/y": [2, 3]})
    assert read_rows(path) == read_rows(path, group="/") == [{"x": 1}]


def test_bad_rows_have_their_places(tmp_path: Path) -> None:
    """A bad value names its row in the file."""
    path = write(tmp_path / "a.h5", {"n": np.arange(ROWS), "t": np.array([b"a"] * 999 + [b"\xff"])})
    with pytest.raises(DataError, match=r"a\.h5, row 1000, column 't'"):
        read_rows(path, range_bytes=1_000)
    assert read_rows(path, types={"t": "bytes"})[-1]["t"] == b"\xff"
    plan = plan_of(path, types={"n": "int8", "t": "bytes"}, range_bytes=4_000)
    table, counts, rejected = read.read_table(plan, reject=True)
    assert (table.num_rows, counts["rejected"]) == (128, 872)
    assert [rejected[0].position, rejected[-1].position] == ["row 129", "row 1000"]


def links(file: h5py.File) -> None:
    file["x"] = [1, 2]
    file["link"] = h5py.ExternalLink("/etc/passwd", "/")


def soft(file: h5py.File) -> None:
    file["x"] = [1, 2]
    file["link"] = h5py.SoftLink("/x")


def external(file: h5py.File) -> None:
    file["x"] = [1, 2]
    file.create_dataset("y", (2,), "u1", external=[("/etc/passwd", 0, 2)])


def virtual(file: h5py.File) -> None:
    file["x"] = [1, 2]
    layout = h5py.VirtualLayout((2,), "i8")
    layout[:] = h5py.VirtualSource("other.h5", "x", (2,))
    file.create_virtual_dataset("y", layout)


def plugin(file: h5py.File) -> None:
    file["x"] = [1, 2]
    pipeline = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    pipeline.set_chunk((2,))
    pipeline.set_filter(32_001, h5py.h5z.FLAG_OPTIONAL, ())
    space = h5py.h5s.create_simple((2,))
    made = h5py.h5d.create(file.id, b"y", h5py.h5t.STD_U8LE, space, pipeline)
    made.write_direct_chunk((0,), b"ab")


def scalar(file: h5py.File) -> None:
    file["x"], file["y"] = [1, 2], 5


def longer(file: h5py.File) -> None:
    file["x"], file["y"] = [1, 2], [1, 2, 3]


def records(file: h5py.File) -> None:
    file["x"], file["y"] = [1, 2], np.zeros(2, [("a", "i4"), ("b", "f8")])


def complex_(file: h5py.File) -> None:
    file["x"], file["y"] = [1, 2], np.zeros(2, np.complex64)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (links, "dataset 'link': found a link"),
        (soft, "dataset 'link': found a link"),
        (external, "dataset 'y': found values in other files"),
        (virtual, "dataset 'y': found values in other files"),
        (plugin, "dataset 'y': found filter 32001 (no name), which is a plugin"),
        (scalar, "dataset 'y': found a single value"),
        (longer, "dataset 'y': found 3 rows, expected 2 as in 'x'"),
        (records, "dataset 'y': found records with fields"),
        (complex_, "dataset 'y': found values of type complex64"),
    ],
)
def test_datasets_that_are_refused(
    tmp_path: Path, make: Callable[[h5py.File], None], message: str
) -> None:
    """The error names the dataset; leaving it out works."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        make(file)
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        read_rows(path)
    assert "name the others in 'columns'" in str(caught.value)
    assert read_rows(path, columns=("x",)) == [{"x": 1}, {"x": 2}]


def test_damage_and_limits(tmp_path: Path) -> None:
    """Cut files, other files, and arrays without values are errors."""
    path = tmp_path / "a.h5"
    write_all(path)
    data = path.read_bytes()
    for content in (data[: len(data) // 2], b"a,b\n1,2\n", data[:20]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"a\.h5: found damaged HDF5 data"):
            read_rows(path)
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (10**12,), "f8", chunks=(1024,))
    with pytest.raises(DataError, match="decompression_ratio"):
        read_rows(path)
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (4, 1_000), "f8")
    with pytest.raises(DataError, match=r"dataset 'x': found rows of 8,000 bytes.*cell_bytes"):
        read_rows(path, limits=Limits(cell_bytes=2_000))
    with h5py.File(path, "w") as file:
        file.create_group("g")
    assert "found no dataset" in problems_of(path)["sources", "s", "group"]


def test_tables_of_pandas_are_explained(tmp_path: Path) -> None:
    """Records with fields, as pandas writes them, are no columns."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["x/table"] = np.array([(0, 1)], [("index", "i8"), ("x", "i8")])
    with pytest.raises(DataError, match="records with fields"):
        read_rows(path, group="x")
