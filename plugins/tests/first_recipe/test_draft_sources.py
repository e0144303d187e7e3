"""Tables of ordinary folders: the base, the label, what is left out."""

from __future__ import annotations

import gzip
import json
import math
import pathlib
import re
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import beam_pipelines as bp
from beam_pipelines.cli.main import run
from beam_pipelines.recipe.text.yaml import parse_yaml
from beam_pipelines.sources.files.split_names import split_of_name, split_patterns, splits_of
from beam_pipelines_plugins.first_recipe.draft_sources import best_of, pattern_of, series_of
from beam_pipelines_plugins.first_recipe.encodings import Proposal
from beam_pipelines_plugins.first_recipe.recipe_text import with_encodings


def table(columns: str, first: int, count: int) -> str:
    """Returns CSV of counting ids and small numbers."""
    names = columns.split(",")
    rows = (
        ",".join(str(row if place == 0 else row % (place + 1)) for place in range(len(names)))
        for row in range(first, first + count)
    )
    return "\n".join([columns, *rows]) + "\n"


TRAIN = table("id,y,a,b", 1, 120)
TEST = table("id,a,b", 200, 30)
FORM = table("id,y", 200, 30)
USERS = table("id,age,kind", 1, 40)
CLICKS = table("click,user_id,late", 1, 40)
# Files -> base, label, sources, names in comments on what is left out.
FOLDERS = {
    "kaggle": (
        {"train.csv": TRAIN, "test.csv": TEST, "sample_submission.csv": FORM},
        ("train", "y", ["train"], ["test.csv", "sample_submission.csv"]),
    ),
    "subfolders": (
        {"data/train_data.csv": TRAIN, "data/holdout.csv": TEST, "gender_submission.csv": FORM},
        ("train_data", "y", ["train_data"], ["holdout.csv", "gender_submission.csv"]),
    ),
    "gzip": (
        {"train.csv.gz": TRAIN, "test.csv.gz": TEST},
        ("train", "y", ["train"], ["test.csv.gz"]),
    ),
    "splits": (
        {"train.csv": TRAIN, "valid.csv": TRAIN, "test.csv": TEST},
        ("train", "y", ["train"], ["test.csv"]),
    ),
    "columns in another order": (
        {"north.csv": "id,kind\n1,a\n2,b\n", "south.csv": "kind,id\na,3\nb,4\n"},
        ("all_north", None, ["north", "south", "all_north"], []),
    ),
    "columns in other letters": (
        {"north.csv": "id,kind\n1,a\n2,b\n", "south.csv": "Id,Kind\n3,a\n4,b\n"},
        ("north", None, ["north"], ["south.csv"]),
    ),
    "years": (
        {"clicks-2025.csv": CLICKS, "clicks-2026.csv": CLICKS, "users.csv": USERS},
        ("clicks", "late", ["clicks", "users"], []),
    ),
    "got a column": (
        {
            "clicks-2024.csv": CLICKS,
            "clicks-2025.csv": CLICKS,
            "clicks-2026.csv": table("click,user_id,late,how", 1, 40),
            "users.csv": USERS,
        },
        ("clicks", None, ["clicks-2024", "clicks-2026", "clicks", "users"], []),
    ),
    "another column": (
        {"clicks-1.csv": CLICKS, "clicks-2.csv": table("click,user_id,how", 1, 40)},
        ("clicks", None, ["clicks-1", "clicks-2", "clicks"], []),
    ),
    "another order": (
        {"clicks-1.csv": CLICKS, "clicks-2.csv": table("click,late,user_id", 1, 40)},
        ("clicks", "late", ["clicks-1", "clicks-2", "clicks"], []),
    ),
    "another table": (
        {"table-1.csv": CLICKS, "table-2.csv": table("user,age,late_fee,kind,size", 1, 40)},
        ("table-1", "late", ["table-1", "table-2"], []),
    ),
    "other letters": (
        {"clicks-1.csv": CLICKS, "clicks-2.csv": CLICKS.replace("user_id", "User_ID")},
        ("clicks-1", "late", ["clicks-1"], ["clicks-2.csv"]),
    ),
    "other types": (
        {
            "clicks-1.csv": CLICKS + "x,1,1\n" * 20,
            "clicks-2.csv": table("click,user_id,late,how", 1, 40),
        },
        ("clicks-2", "late", ["clicks-2"], ["clicks-1.csv"]),
    ),
    "months": (
        {"clicks_jan.csv": CLICKS, "clicks_feb.csv": CLICKS, "users.csv": USERS},
        ("clicks", "late", ["clicks", "users"], []),
    ),
    "parts": (
        {"clicks/part-0001.csv": CLICKS, "clicks/part-0002.csv": CLICKS, "users.csv": USERS},
        ("clicks", "late", ["clicks", "users"], []),
    ),
    "refunds": (
        {
            "orders.csv": "order_id,user_id,label\n"
            + "".join(f"{row},{row * 7 % 40 + 1},{row % 2}\n" for row in range(120)),
            "refunds.csv": "refund_id,order_id,why\n"
            + "".join(f"{row},{row * 7},{'abc'[row % 3]}\n" for row in range(15)),
            "users.csv": USERS,
        },
        ("orders", "label", ["orders", "refunds", "users"], []),
    ),
    "others": (
        {
            "clicks.csv": CLICKS,
            "README.md": "x",
            "empty.csv": "",
            "logo.png": "x",
            ".hidden": "x",
            "raw.zip": "x",
            "config.json": "{}",
            "book.xlsx": "x",
            "notes.foo": "x",
            "app.db": "x",
            "dump.sql": "x",
            "old/dataset.json": "{}",
            "recipe.schema.json": "{}",
        },
        (
            "clicks",
            "late",
            ["clicks"],
            [
                "README.md",
                "empty.csv",
                "logo.png",
                ".hidden",
                "raw.zip",
                "config.json",
                "book.xlsx",
                "notes.foo",
                "app.db",
                "dump.sql",
                "old",
            ],
        ),
    ),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_first_recipes_of_folders(
    name: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file is in a source or a comment."""
    contents, (base, label, sources, left_out) = FOLDERS[name]
    for path, text in contents.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        data = text.encode()
        (tmp_path / path).write_bytes(gzip.compress(data) if path.endswith(".gz") else data)
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert run(["init", ".", "--overwrite"]) == 0
        text = pathlib.Path("recipe.yaml").read_text()
        recipe = bp.plan("recipe.yaml").recipe
        assert (recipe.base, recipe.label, list(recipe.sources)) == (base, label, sources)
        found = re.findall(
            r"# left out: \./([^:]+):", text.replace("# left out: ", "# left out: ./")
        )
        found = [path.removeprefix("./").rpartition("/")[2] for path in found]
        assert sorted(set(found) - {"recipe.yaml"}) == sorted(left_out)


# (has label, joins, rows) of sources, pairs whose first names the second -> base, other.
BASES = {
    "refunds": ([(0, 2, 60), (0, 1, 200), (0, 0, 50)], {(0, 1), (0, 2), (1, 2)}, (1, 0)),
    "items": ([(0, 2, 500), (0, 1, 200), (0, 0, 50)], {(0, 1), (1, 2)}, (0, None)),
    "clicks": ([(0, 1, 200), (0, 1, 210), (0, 0, 50)], {(0, 2), (1, 2)}, (1, 0)),
    "fewer joins": ([(0, 2, 100), (0, 1, 300), (0, 0, 9), (0, 0, 9)], {(0, 2), (1, 2)}, (0, 1)),
    "a label": ([(1, 1, 60), (0, 2, 200), (0, 0, 50)], {(0, 1), (1, 2)}, (0, None)),
    "labels": ([(1, 2, 60), (1, 1, 200), (0, 0, 50)], {(0, 1), (1, 2)}, (1, 0)),
    "no joins": ([(0, 0, 60), (0, 0, 200)], set(), (1, None)),
    "large lookup": ([(0, 1, 60), (0, 0, 200)], {(0, 1)}, (0, None)),
}


@pytest.mark.parametrize("case", BASES)
def test_the_base_of_several(case: str) -> None:
    """Labels count, then joins; more rows that others name win."""
    sources, named, expected = BASES[case]
    scores = [(False, False, joins > 0, label > 0, joins, rows) for label, joins, rows in sources]
    assert best_of(scores, lambda one, two: (one, two) in named) == expected


def test_a_base_without_a_label(tmp_path: pathlib.Path) -> None:
    """Orders are taken over refunds, which a comment names."""
    (tmp_path / "orders.csv").write_text(table("order_id,customer,amount", 1, 200))
    refunds = [f"{n},{n // 2 + 1},{n % 7}" for n in range(60)]
    (tmp_path / "refunds.csv").write_text("\n".join(["refund_id,order_id,sum", *refunds, ""]))
    (tmp_path / "customers.csv").write_text(table("customer,age", 0, 50))
    recipe = tmp_path / "r.yaml"
    assert run(["init", str(tmp_path), "-o", str(recipe)]) == 0
    text = recipe.read_text()
    assert bp.plan(recipe).recipe.base == "orders"
    assert "# choose: the other source whose rows may be examples" in text
    assert "\n# from: refunds\n" in text


def test_the_order_of_arguments(tmp_path: pathlib.Path) -> None:
    """The base is the same in any order."""
    (tmp_path / "users.csv").write_text(USERS)
    (tmp_path / "clicks.csv").write_text(CLICKS)
    for names in (("users", "clicks"), ("clicks", "users")):
        paths = [str(tmp_path / f"{name}.csv") for name in names]
        assert run(["init", *paths, "-o", str(tmp_path / "r.yaml"), "--overwrite"]) == 0
        assert bp.plan(tmp_path / "r.yaml").recipe.base == "clicks"


def test_files_of_a_series_in_the_current_folder(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their paths have no folder."""
    monkeypatch.chdir(tmp_path)
    for year in (2025, 2026):
        pathlib.Path(f"visits-{year}.csv").write_text(table("id,a", year * 1000, 20))
    assert run(["init", "visits-2025.csv", "visits-2026.csv", "-o", "r.yaml"]) == 0
    assert bp.plan("r.yaml").recipe.sources["visits"].path == ("visits-*.csv",)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("a-2025.csv.gz", "a-2026.csv.gz", True),
        ("log_20240101.csv", "log_20240102.csv", True),
        ("sales_jan.csv", "sales_february.csv", True),
        ("part-0001.csv", "part-0002.csv", True),
        ("items.csv", "items_2.csv", True),
        ("items (1).csv", "items.csv", True),
        ("users.csv", "items.csv", False),
        ("may_sales.csv", "mayor_sales.csv", False),
    ],
)
def test_names_of_a_series(one: str, other: str, expected: bool) -> None:
    """Numbers, dates and months do not tell files of a series apart."""
    assert (series_of(one) == series_of(other)) is expected


def test_patterns_match_no_other_file() -> None:
    """A series is listed where its pattern would match another file."""
    paths = ["d/a-2025.csv", "d/a-2026.csv"]
    assert pattern_of(paths, [*paths, "d/b.csv"]) == ("d/a-*.csv",)
    assert pattern_of(paths, [*paths, "d/a-old.csv"]) == tuple(paths)


def test_splits_in_names() -> None:
    """Words of a name say the split; parts of words do not."""
    names = ["train_data.csv", "X_test.csv", "valid.csv", "latest.csv", "test_submission.csv"]
    assert [*map(split_of_name, names)] == ["train", "test", "eval", "", "submission"]
    paths = ["test/train/a.csv", "test/Val/x/a.csv", "test/test/train_a.csv", "test/a.csv"]
    assert [*splits_of(paths).values()] == ["train", "eval", "train", ""]
    shards = ["d/test-0.csv", "d/train-0.csv", "d/train-1.csv"]
    assert split_patterns(shards) == (("train", "*train-*"), ("test", "*test-0.csv"))
    assert split_patterns(["d/test/train_b.csv", "d/train_a.csv"]) == ()


def idx(*dims: int) -> bytes:
    """Returns an IDX file of small numbers."""
    header = struct.pack(f">BBBB{len(dims)}I", 0, 0, 8, len(dims), *dims)
    return header + bytes(place % 10 for place in range(math.prod(dims)))


@pytest.mark.parametrize(
    ("contents", "splits"),
    [
        (
            {f"{split}/part.csv": TRAIN.encode() for split in ("test", "train", "val")},
            {"train": 120, "test": 120, "eval": 120},
        ),
        (
            {f"{split}/{part}.csv": TRAIN.encode() for split in ("train", "val") for part in "ab"},
            {"train": 240, "eval": 240},
        ),
        (
            {
                "t10k-images-idx3-ubyte": idx(30, 3, 2),
                "t10k-labels-idx1-ubyte": idx(30),
                "train-images-idx3-ubyte.gz": gzip.compress(idx(60, 3, 2)),
                "train-labels-idx1-ubyte.gz": gzip.compress(idx(60)),
            },
            {"train": 60, "test": 30},
        ),
    ],
    ids=["files", "folders", "mnist"],
)
def test_folders_and_files_of_splits(contents, splits, tmp_path, monkeypatch):
    """They are one source, and its splits."""
    for path, data in contents.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(data)
    monkeypatch.chdir(tmp_path)
    assert run(["init", "."]) == 0
    made = bp.plan("recipe.yaml").recipe
    assert (len(made.sources), made.label) in ((1, "y"), (1, "image/class/label"))
    assert run(["convert", "recipe.yaml", "-o", "out", "-q"]) == 0
    assert list(bp.open("out").splits.items()) == list(splits.items())


def test_a_folder_called_metadata(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It makes no lakehouse of a folder.

    An unreadable file is told of.
    """
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "users.csv").write_text(USERS)
    (tmp_path / "clicks.csv").write_text(CLICKS)
    (tmp_path / "bad.parquet").write_text("PAR1 broken")
    recipe = tmp_path / "r.yaml"
    assert run(["init", str(tmp_path), "-o", str(recipe)]) == 0
    assert set(bp.plan(recipe).recipe.sources) == {"clicks", "users"}
    assert re.search(r"warning: .*bad\.parquet is left out: ", capsys.readouterr().err)


def test_a_comma_in_braces(tmp_path: pathlib.Path) -> None:
    """The error of a text that YAML cut says to quote it.

    Which helps.
    """
    (tmp_path / "clicks.csv").write_text(CLICKS)
    recipe = tmp_path / "r.yaml"
    text = "name: r\nsources: {c: clicks.csv}\nfrom: c\nderive: {x: coalesce(late > 1, false)}\n"
    recipe.write_text(text)
    with pytest.raises(bp.RecipeError, match="In braces a comma ends a text"):
        bp.plan(recipe)
    recipe.write_text(text.replace("coalesce(late > 1, false)", '"coalesce(late > 1, false)"'))
    bp.plan(recipe)


def test_a_recipe_gets_encodings(tmp_path: pathlib.Path) -> None:
    """Columns of joined rows are encoded; encodings of the recipe stay."""
    (tmp_path / "users.csv").write_text(USERS)
    (tmp_path / "clicks.csv").write_text(CLICKS)
    recipe = tmp_path / "r.yaml"
    recipe.write_text(
        "name: r\nsources: {c: clicks.csv, u: {path: users.csv, key: id}}\nfrom: c\n"
        "join: [{source: u, on: {user_id: id}, prefix: u_}]\nlabel: late\n"
        "encode:\n  user_id: {hash_bucket: 7}\n"
    )
    with pytest.raises(bp.RecipeError, match=r"beam-pipelines init .*r.yaml -o encoded.yaml"):
        bp.plan(recipe, encode=True)
    assert run(["init", str(recipe), "-o", str(tmp_path / "encoded.yaml")]) == 0
    encode = bp.plan(tmp_path / "encoded.yaml").recipe.encode
    assert encode["user_id"] == (("hash_bucket", {"value": 7}),)
    assert {"u_age", "u_kind"} <= set(encode)
    assert run(["init", str(recipe), "-o", str(tmp_path / "other" / "e.yaml")]) == 2


def test_private_columns_of_a_recipe(tmp_path: pathlib.Path) -> None:
    """No proposal for a private column shows a value of it."""
    lines = "".join(f"{row},secret{row % 3},town{row % 4}\n" for row in range(60))
    (tmp_path / "d.csv").write_text(f"n,who,town\n{lines}")
    (tmp_path / "key.txt").write_text("0123456789abcdef0123456789abcdef")
    recipe = tmp_path / "r.yaml"
    for private in ("pii: {allow: [who]}", "protect: {who: {keyed_hash: key.txt}}"):
        recipe.write_text(f"name: d\nsources: {{d: d.csv}}\nfrom: d\n{private}\n")
        output = tmp_path / "e.yaml"
        assert run(["init", str(recipe), "-o", str(output), "--overwrite"]) == 0
        assert "who stays as it is: its values are private" in output.read_text()
        assert "town0" in output.read_text()
        assert "secret" not in output.read_text()
        bp.plan(output)


@pytest.mark.parametrize("rows", [0, 5])
def test_a_recipe_without_rows(
    rows: int, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without rows there is an error, and no recipe."""
    pq.write_table(pa.table({"n": pa.array(range(rows), pa.int64())}), tmp_path / "d.parquet")
    recipe = tmp_path / "r.yaml"
    recipe.write_text("name: d\nsources: {d: d.parquet}\nfrom: d\nfilter: n > 5\n")
    assert run(["init", str(recipe), "-o", str(tmp_path / "e.yaml")]) == 1
    assert re.search("found (no row|.*no rows)", capsys.readouterr().err)
    assert not (tmp_path / "e.yaml").exists()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("encode:\n    a: drop\n", ""),
        ("# Fitted\nencode:  # mine\n  a:\n  - fill: 0\n\n  # last\n", "output: {num_shards: 1}\n"),
        ('"encode":\n  a: drop\n# of the label\n', "label: b\n"),
        ("encode:\n", "label: b\n"),
        ("", ""),
    ],
)
def test_encodings_go_behind(before: str, after: str, tmp_path: pathlib.Path) -> None:
    """Encodings of a recipe are followed by new ones.

    In its own indent.
    """
    text = f"name: d\n{before}{after}"
    made = with_encodings(
        text, "r.yaml", [Proposal("c", "drop", "none"), Proposal("d", "", "bytes")]
    )
    (tree, _, found), (old, *_) = (parse_yaml(each, "r.yaml") for each in (made, text))
    assert not found
    assert isinstance(tree, dict)
    assert isinstance(old, dict)
    encode, own = tree.pop("encode"), old.pop("encode", {})
    assert tree == old
    assert isinstance(encode, dict)
    assert [*encode] == [*(own if isinstance(own, dict) else {}), "c"]
    assert made.count("# Fitted") == (before.count("# Fitted") or not before)


def test_sources_that_nothing_uses(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Plans and previews name them, and JSON has them without text."""
    (tmp_path / "users.csv").write_text(USERS)
    (tmp_path / "clicks.csv").write_text(CLICKS)
    recipe = tmp_path / "r.yaml"
    recipe.write_text("name: r\nsources: {c: clicks.csv, u: users.csv}\nfrom: c\n")
    for command in ("plan", "preview"):
        assert run([command, str(recipe)]) == 0
        assert "sources that nothing uses: u." in capsys.readouterr().out
    assert run(["plan", str(recipe), "--format", "json", "-q"]) == 0
    assert json.loads(capsys.readouterr().out)["plan"]["unused_sources"] == ["u"]
