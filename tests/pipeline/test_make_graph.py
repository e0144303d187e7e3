"""The serving graph is built on request."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import beam_pipelines as bp
from beam_pipelines.cli.main import run
from tests.support.contents import contents

RECIPE = """
name: rides
sources: {rides: rides.csv}
encode:
  km: [{fill: mean}, z_score]
  town: {vocabulary: {num_oov: 1}}
label: late
split: {train: 0.5, eval: 0.5}
"""


@pytest.mark.end_to_end
def test_a_later_graph_is_the_one_of_the_conversion(tmp_path, capsys):
    """``graph`` adds the files that ``serving: true`` writes, and their checksums."""
    rows = [f"{n},{('ulm', 'bonn')[n % 2]},{n % 3 % 2}" for n in range(40)]
    (tmp_path / "rides.csv").write_text("km,town,late\n" + "\n".join(rows) + "\n,köln,1\n" * 5)
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    out, whole = tmp_path / "out", tmp_path / "whole"
    recipe = str(tmp_path / "recipe.yaml")
    assert run(["convert", recipe, "-o", str(out)]) == 0
    assert f"serving  no graph yet: beam-pipelines graph {out}" in capsys.readouterr().out
    assert run(["convert", recipe, "-o", str(whole), "--set", "output.serving=true"]) == 0
    assert "serving " not in capsys.readouterr().out
    assert not (out / "transform_graph" / "transform_fn").exists()
    before = contents(out)
    bp.open(out).encoder()({"km": 3, "town": "ulm"})
    assert run(["graph", str(out)]) == 0
    assert capsys.readouterr().out.strip() == str(out / "transform_graph" / "transform_fn")
    after = contents(out)
    manifest = {"dataset.json": after["dataset.json"]}  # has the checksums of the graph
    assert (before | manifest).items() <= after.items()
    assert contents(out / "transform_graph") == contents(whole / "transform_graph")
    assert bp.verify(out).rows == 45
    done = contents(out)
    bp.make_graph(out)
    assert contents(out) == done
    shutil.rmtree(out / "transform_graph")
    with pytest.raises(bp.DataError, match="found a dataset without encodings"):
        bp.make_graph(out)


def test_a_folder_without_a_dataset_has_no_graph(tmp_path: Path) -> None:
    """A folder without a dataset is an error, and stays empty."""
    with pytest.raises(bp.DataError, match=r"found no dataset\.json"):
        bp.make_graph(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
