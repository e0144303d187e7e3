"""Small data and the conversions that every runner makes of them.

Together the conversions cover every way that rows can take.
"""

from __future__ import annotations

import json
import random
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from beam_pipelines.pipeline import convert as convert_module
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.pipeline.planning.transform import plan_transform
from beam_pipelines.pipeline.run_options import RunOptions
from tests.support.contents import timeless
from tests.support.reports import without_seconds

ROWS = 3_000
# Cuts the visits into several ranges, so that there is something to distribute.
RANGE_BYTES = 20_000

SOURCES = """
name: visits
sources:
  visits: {path: visits.csv, types: {comment: text}}
  users: {path: users.jsonl, key: user}
  shops: {path: shops.parquet, key: [shop, day]}
from: visits
"""

EVERYTHING = f"""{SOURCES}
join:
  - {{source: users, on: user, how: inner, prefix: user_, strategy: broadcast}}
  - {{source: shops, on: [shop, day], prefix: shop_, strategy: hash}}
filter: seconds >= 10 OR seconds IS NULL
derive:
  long: coalesce(seconds, 0) > 300
  importance: 1 + day % 3
encode:
  seconds: [{{fill: median}}, z_score]
  day: {{cyclic: 30}}
  shop_area: [{{fill: mean}}, {{bucketize: 5}}]
  user: {{vocabulary: {{num_oov: 2}}}}
  user_home.city: {{vocabulary: {{num_oov: 1}}}}
  comment: [{{tokenize: {{lower: true}}}}, {{bag_of_words: 20}}]
label: long
split: {{train: 0.7, eval: 0.3, by: [shop]}}
statistics: {{slice_by: day}}
output: {{shard_size: 8KB, shuffle_seed: 5}}
"""

SOURCE_ORDER = f"""{SOURCES}
join:
  - {{source: shops, on: [shop, day], how: inner, prefix: shop_, strategy: hash}}
split: {{train: 0.5, eval: 0.5}}
leaks: {{entity: [user, day]}}
output: {{num_shards: 3, shuffle: false, compression: none}}
"""

SHUFFLED = SOURCE_ORDER.replace("shuffle: false", "shuffle: true")

BROADCAST = f"""{SOURCES}
join:
  - {{source: shops, on: [shop, day], prefix: shop_, strategy: broadcast}}
protect: {{comment: drop}}
pii: {{allow: [user]}}
split: {{train: 0.5, eval: 0.5}}
statistics: {{weight: day}}
output: {{num_shards: 2, shuffle: false, compression: zlib, shards_multiple_of: 2}}
"""

SEQUENCES = """
name: histories
sources: {visits: {path: visits.csv, types: {comment: text}}}
sequence: {group_by: user, order_by: [day, seconds, shop, comment], max_length: 12}
filter: seconds IS NOT NULL AND comment IS NOT NULL
duplicates: {by: [user, day, shop], action: drop}
expect:
  - {name: long, row: seconds >= 30, severity: warn}
  - {name: spread, column: avg(seconds * seconds) - avg(seconds) ** 2 < 1 OR avg(seconds / 7) > 100, severity: warn}
split: {train: 0.6, eval: 0.4, by: [user]}
output: {num_shards: 2, compression: zlib, shuffle_seed: 1}
"""

RAW = """
name: lines
sources: {lines: {path: visits.csv, format: lines}}
output: {record: line, num_shards: 2, compression: gzip, level: 6}
"""


# Hive's folders, a zip archive, lines above a table, fields of two kinds.
AS_THEY_ARE = """
name: found
sources:
  found: {path: found, types: {month: text}}
  members: {path: members.zip, key: user}
  kinds: {path: kinds.jsonl, key: id, types: {id: text}}
from: found
join:
  - {source: members, on: user, prefix: member_, strategy: broadcast}
  - {source: kinds, on: {user: id}, prefix: kind_, strategy: hash}
encode: {seconds: z_score, month: vocabulary}
split: {train: 0.7, eval: 0.3}
output: {num_shards: 2}
"""


STRATIFIED = f"""{SOURCES}
derive: {{long: "coalesce(seconds, 0) > 300"}}
split: {{test: 0.1, folds: 3, stratify: [long, day]}}
leaks: {{entity: [user, day]}}
output: {{num_shards: 2}}
"""

UNION = """
name: visits
sources:
  visits: {path: visits.csv, types: {comment: text}}
  users: {path: users.jsonl, key: user}
  all: {union: [visits, users], missing: fill, origin: origin}
from: all
split: {train: 0.7, eval: 0.3, stratify: origin}
sample: {by: origin, rates: {visits: 0.6, users: 1.5}, weight: w}
output: {num_shards: 2}
"""

TIMED = "path: visits.csv, types: {comment: text}, derive: {at: 'make_timestamp((day * 86400 + coalesce(seconds, 0)) * 1000000)'}"
OVER_TIME = f"""
name: visits
sources: {{visits: {{{TIMED}}}, log: {{{TIMED}}}}}
from: visits
join:
  - source: log
    on: user
    as_of: {{left: at, right: at, tolerance: 9d, exact: false, tie: shop}}
    how: inner
    prefix: before_
    strategy: hash
  - source: log
    on: shop
    window: {{left: at, right: at, over: 5d}}
    features: {{n: count(), today: count() over 1d, mean: mean(seconds), users: "last(user, 4)"}}
    strategy: hash
sequence: {{features: users}}
output: {{num_shards: 2}}
"""

CONVERSIONS = {
    "everything": EVERYTHING,
    "source_order": SOURCE_ORDER,
    "broadcast": BROADCAST,
    "sequences": SEQUENCES,
    "raw": RAW,
    "as_they_are": AS_THEY_ARE,
    "stratified": STRATIFIED,
    "union": UNION,
    "shuffled": SHUFFLED,
    "over_time": OVER_TIME,
}


def write_data(folder: Path, rows: int = ROWS) -> None:
    """Writes a table of visits and two tables for joins.

    The visits have multi-line cells, quotes and nulls. The other tables lack some of their keys.
    """
    rng = random.Random(1)
    comments = [
        "",
        "quite fine",
        '"two\nlines"',
        '"a ""good"" quote"',
        "NA",
        "é à ü",
        "fine fine not fine",
    ]
    with open(folder / "visits.csv", "w", encoding="utf-8") as file:
        file.write("user,day,seconds,shop,comment\n")
        for _ in range(rows):
            seconds = rng.choice(["", *[rng.randrange(600)] * 9])
            place = f"{rng.randrange(30)},{seconds},s{rng.randrange(40)}"
            file.write(f"u{rng.randrange(300)},{place},{rng.choice(comments)}\n")
    users = [
        {"user": f"u{number}", "age": number % 90, "home": {"city": f"c{number % 7}"}}
        for number in range(250)
    ]
    (folder / "users.jsonl").write_text("\n".join(map(json.dumps, users)) + "\n")
    keys = [(f"s{shop}", day) for shop in range(37) for day in range(28)]
    shops = {"shop": [shop for shop, _ in keys], "day": [day for _, day in keys]}
    area = [None if number % 11 == 0 else (number % 97) / 3 for number in range(len(keys))]
    pq.write_table(
        pa.table({**shops, "area": area, "rooms": [[number, 1] for number in range(len(keys))]}),
        folder / "shops.parquet",
    )
    _write_found(folder, rows)


def _write_found(folder: Path, rows: int) -> None:
    """Writes files as people have them."""
    users = [str(number) if number % 2 else f"x{number}" for number in range(300)]
    schema = pa.schema(
        [
            ("user", pa.string()),
            ("seconds", pa.int64()),
            ("pairs", pa.map_(pa.string(), pa.int64())),
        ]
    )
    for month in range(1, 7):
        path = folder / "found" / "year=2024" / f"month={month:02}" / "part.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        numbers = range(month, rows, 6)
        table = {
            "user": [users[number % 300] for number in numbers],
            "seconds": [number % 600 for number in numbers],
            "pairs": [[("a", number)] if number % 3 else None for number in numbers],
        }
        pq.write_table(pa.table(table, schema=schema), path)
    with zipfile.ZipFile(folder / "members.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for part in range(2):
            lines = [f"{user};{len(user)},5" for user in users[part::2]]
            text = "\n".join(["Members;", f"Part {part};", "user;score", *lines, ""])
            archive.writestr(zipfile.ZipInfo(f"{part}.csv", (2024, 1, 1, 0, 0, 0)), text)
    kinds = (
        {"id": int(user) if user.isdigit() else user, "tags": [user, "none"]}
        for user in users[:280]
    )
    (folder / "kinds.jsonl").write_text("\n".join(map(json.dumps, kinds)) + "\n")


def plan_of(recipe: str, folder: Path) -> Plan:
    """Plans a recipe whose data are in a folder."""
    parsed = parse_recipe(recipe, "recipe.yaml", str(folder))
    return make_plan(parsed)


def convert(
    name: str, data: Path, output: Path | str, options: Sequence[str], resume: bool = False
) -> None:
    """Converts one of ``CONVERSIONS`` on a runner."""
    plan = plan_of(CONVERSIONS[name], data)
    convert_module.convert(plan, str(output), beam_options=options, quiet=True, resume=resume)


def describe(data: Path, output: Path, options: Sequence[str]) -> None:
    """Describes what ``everything`` reads, on a runner."""
    run_options = RunOptions(str(output), beam_options=options, quiet=True)
    convert_module.describe(plan_of(EVERYTHING, data), run_options)


def transform(dataset: Path, data: Path, output: Path, options: Sequence[str]) -> None:
    """Converts the visits again by the encodings of a dataset."""
    plan = plan_transform(str(dataset), [str(data / "visits.csv")], {}, "again", None)
    convert_module.convert(plan, str(output), beam_options=options, quiet=True)


def contents(folder: Path) -> dict[str, Any]:
    """Returns path -> content of all files of a dataset or description.

    They come without the timings.
    """
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            name = str(path.relative_to(folder))
            found[name] = path.read_bytes()
            if name in ("dataset.json", "description.json"):
                found[name] = timeless(json.loads(found[name]))
            elif name == "report.html":
                found[name] = without_seconds(found[name])
    return found


def assert_same(found: Path, expected: Path) -> None:
    """Checks that two folders hold the same files and bytes.

    It names the files that differ.
    """
    one, other = contents(found), contents(expected)
    assert list(one) == list(other)
    differing = [name for name in one if one[name] != other[name]]
    assert differing == [], differing
