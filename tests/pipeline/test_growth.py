"""A dataset grows by one more, with its encodings and splits."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import beam_pipelines as bp
from beam_pipelines.cli.main import run
from beam_pipelines.core.errors import DataError, RecipeError

pytestmark = pytest.mark.end_to_end

ROWS = 500
ANY = ["COMPARATOR_JENSEN_SHANNON_DIVERGENCE_HIGH"]
CITIES = ("Rome", "Oslo", "Bern")
RECIPE = """
name: visits
sources:
  visits: {path: "day-1.csv"}
label: paid
encode: {city: vocabulary, price: z_score}
split: {by: id, train: 75%, eval: 25%}
"""


def write_day(path: Path, day: int, scale: float = 1, header: str = "id,city,price,paid") -> None:
    """Writes the visits of a day; ids go on."""
    choose = random.Random(day)
    lines = [
        f"{number},{choose.choice(CITIES)},{choose.randint(1, 900) / 10 * scale},{number % 2}"
        for number in range(day * ROWS, (day + 1) * ROWS)
    ]
    columns = len(header.split(","))
    path.write_text("\n".join([header, *(line.rsplit(",", 4 - columns)[0] for line in lines)]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A dataset of the first day, and one of both days."""
    root = tmp_path_factory.mktemp("growth")
    for day, scale in ((1, 1), (2, 1), (3, 4)):
        write_day(root / f"day-{day}.csv", day, scale)
    write_day(root / "short.csv", 4, header="id,city,price")
    (root / "recipe.yaml").write_text(RECIPE)
    (root / "both.yaml").write_text(RECIPE.replace("day-1.csv", "day-[12].csv"))
    bp.convert(root / "recipe.yaml", root / "out" / "day-1")
    bp.convert(root / "both.yaml", root / "both")
    bp.transform(
        root / "out" / "day-1", str(root / "day-2.csv"), root / "out" / "day-2", split=None
    )
    return root


def columns_of(dataset, split: str) -> dict[str, np.ndarray]:
    """Returns the columns of a split, in the order of ids."""
    (batch,) = dataset.batches(split, 10 * ROWS)
    order = np.argsort(batch["id"])
    return {name: values[order] for name, values in batch.items()}


def test_the_two_are_one(folder):
    """Splits are those of one conversion; encodings are the first one's."""
    both, grown = bp.open(folder / "both"), bp.open(str(folder / "out" / "day-*"))
    assert grown.splits == both.splits
    first = columns_of(bp.open(folder / "out" / "day-1"), "train")
    lines = [line.split(",") for line in (folder / "day-2.csv").read_text().splitlines()[1:]]
    raw = {int(number): (city, float(price)) for number, city, price, _ in lines}
    ids_of = {}
    for line in (folder / "day-1.csv").read_text().splitlines()[1:]:
        number, city, *_ = line.split(",")
        at = np.searchsorted(first["id"], int(number))
        if at < len(first["id"]) and first["id"][at] == int(number):
            ids_of[city] = first["city"][at]
    for split in ("train", "eval"):
        found = columns_of(grown, split)
        assert found["id"].tolist() == columns_of(both, split)["id"].tolist()
        new = found["id"] >= 2 * ROWS
        for number, city in zip(found["id"][new], found["city"][new], strict=True):
            assert city == ids_of[raw[number][0]]
    encode = bp.open(folder / "out" / "day-1").encoder(["price"])
    prices = [{"price": raw[number][1]} for number in found["id"][new].tolist()]
    np.testing.assert_array_equal(encode(prices)["price"], found["price"][new])


def test_drift_stops_growth_until_it_is_accepted(folder, monkeypatch, capsys):
    """Prices that drifted are an anomaly against the first dataset."""
    monkeypatch.chdir(folder)
    command = ["transform", "out/day-1", "day-3.csv", "--grow", "--output", "day-3", "--quiet"]
    assert run(command) == 1
    error = capsys.readouterr().err
    assert "price    Drift against the baseline" in error
    allowed = error.partition("(here: ")[2].partition(")")[0]
    assert run([*command, "--allow_anomalies", allowed]) == 0
    assert sum(bp.open(["out/day-1", "day-3"]).splits.values()) == 2 * ROWS


def test_what_cannot_be_read_as_one(folder):
    """New data have all columns; without ``grow`` they need no label."""
    with pytest.raises(RecipeError, match=r"found new data without columns .* \(paid\), expected"):
        bp.transform(folder / "out/day-1", str(folder / "short.csv"), folder / "short", split=None)
    assert run(["transform", "out", "x.csv", "--grow", "--split", "test", "-o", "new"]) == 2
    bp.transform(folder / "out/day-1", str(folder / "short.csv"), folder / "short")
    with pytest.raises(ValueError, match=r"found the label None, expected paid as in"):
        bp.open([folder / "out/day-1", folder / "short"])


def test_a_dataset_without_encodings_grows(tmp_path, monkeypatch):
    """It grows by its schema; the new files have to be named."""
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("k,n\nx,1\ny,2\nx,3\n")
    Path("b.csv").write_text("k,n\nz,4\ny,5\n")
    Path("names.csv").write_text("k,m\nx,7\ny,8\nz,9\n")
    recipe = {
        "name": "t",
        "sources": {"t": "a.csv", "names": {"path": "names.csv", "key": "k"}},
        "from": "t",
        "join": [{"source": "names", "on": "k"}],
    }
    bp.convert(recipe, "one")
    with pytest.raises(DataError, match=r"without encodings, .* or --grow for one more dataset"):
        bp.transform("one", "b.csv", "two")
    with pytest.raises(RecipeError, match="found no NEW_DATA, expected new files"):
        bp.transform("one", [], "two", split=None)
    with pytest.raises(RecipeError, match=r"transform one NEW_DATA --grow --output …"):
        bp.convert(recipe, "one")
    bp.transform("one", "b.csv", "two", split=None, policy=bp.PolicyOptions(allow_anomalies=ANY))
    (batch,) = bp.open(["one", "two"]).batches("train", 10)
    assert sorted(batch["n"].tolist()) == [1, 2, 3, 4, 5]
