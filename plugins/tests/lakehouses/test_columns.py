"""Columns of files become those of their table."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.plan import FileInfo
from beam_pipelines_plugins.lakehouses.snapshots import FIELD_ID, id_of, own_name, plain
from beam_pipelines_plugins.lakehouses.table import LakeTable, keep_deletes

# A file's type, a wider one of its table, and values.
LEAVES = [
    (pa.int32(), pa.int64(), (-5, 5)),
    (pa.float32(), pa.float64(), (0.25, 1.5)),
    (pa.string(), pa.large_string(), ("", "é")),
    (pa.decimal128(5, 2), pa.decimal128(9, 2), (Decimal("1.25"), Decimal("-3.50"))),
]
# A file's type, the table's, a maker of values, and what they become.
Made = tuple[pa.DataType, pa.DataType, Callable[[], Any], Callable[[Any], Any]]


def made_type(chance: random.Random, depth: int) -> Made:
    """Returns a type that changes, by chance."""
    kind = chance.choice(["struct", "struct", "list", "map", "leaf"] if depth else ["leaf"])
    made: Made
    if kind == "leaf":
        old, wider, leaves = chance.choice(LEAVES)
        made = old, chance.choice([old, wider]), lambda: chance.choice(leaves), lambda leaf: leaf
    elif kind == "struct":
        made = made_struct(chance, [made_type(chance, depth - 1) for _ in range(3)])
    else:
        old, new, value, changed = made_type(chance, depth - 1)

        def items() -> dict[str, Any]:
            return {key: value() for key in "abc"[: chance.randrange(4)]}

        made = (
            (pa.list_(old), pa.large_list(new), lambda: [*items().values()],
             lambda found: [changed(each) for each in found])
            if kind == "list"
            else (pa.map_(pa.string(), old), pa.map_(pa.string(), new), lambda: [*items().items()],
                  lambda found: [(key, changed(each)) for key, each in found])
        )  # fmt: skip
    before, after, make, become = made
    return (
        before,
        after,
        lambda: None if chance.random() < 0.2 else make(),
        lambda found: None if found is None else become(found),
    )


def made_struct(chance: random.Random, fields: list[Made]) -> Made:
    """Returns a struct whose fields change names and order, or go."""
    keys = [{FIELD_ID: str(number)} for number in chance.sample(range(1, 99), len(fields))]
    stay = {f"f{(place + 1) % 3}": place for place in chance.sample(range(3), chance.randrange(4))}
    added = pa.field("added", pa.list_(pa.int8()), metadata={FIELD_ID: "0"})
    return (
        pa.struct([pa.field(f"f{place}", one[0], metadata=keys[place]) for place, one in enumerate(fields)]),
        pa.struct([added, *(pa.field(name, fields[place][1], metadata=keys[place]) for name, place in stay.items())]),
        lambda: {f"f{place}": one[2]() for place, one in enumerate(fields)},
        lambda found: {"added": None}
        | {name: fields[place][3](found[f"f{place}"]) for name, place in stay.items()},
    )  # fmt: skip


@given(seed=st.integers(0, 2**32), has_ids=st.booleans())
def test_columns_follow_their_ids(tmp_path_factory: Any, seed: int, has_ids: bool) -> None:
    """Fields are found by their ids, whose names, order and types change.

    A file without ids has those that the table's mapping of names gives it.
    """
    chance, ids = random.Random(seed), dict[str, str]()
    old, new, value, changed = made_struct(chance, [made_type(chance, 3) for _ in range(3)])
    rows = [value() for _ in range(chance.randrange(1, 9))]
    schema = pa.schema(list(old))
    plain(schema, lambda field, path: ids.setdefault(path, id_of(field)))
    path = tmp_path_factory.mktemp("t") / "a.parquet"
    table = pa.Table.from_pylist(rows, schema if has_ids else plain(schema, own_name))
    pq.write_table(table, path, store_schema=False)
    deleted = sorted(chance.sample(range(len(rows)), chance.randrange(len(rows))))
    of_table, kept = pa.schema(list(new)), keep_deletes([np.array(deleted)])
    lake = LakeTable(plain(of_table, own_name), plain(of_table, id_of), ids, pa.table({}), kept)
    file = FileInfo(str(path), path.stat().st_size, note=f"[0, {len(rows)}, 0]")
    found = pa.Table.from_batches(lake._rows_of(Source("s"), file, new.names), lake.columns)
    assert found.to_pylist() == [
        changed(row) for number, row in enumerate(rows) if number not in deleted
    ]
