"""Appends read only new files, fit nothing again, and keep one dataset."""

from __future__ import annotations

import copy
import hashlib
import json
import logging
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import google_crc32c
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

import beam_pipelines as bp
from beam_pipelines.analysis.statistics.datasets import read_accumulators
from beam_pipelines.cli import main as main_module
from beam_pipelines.core.errors import DataError, RecipeError, RecipeProblems
from beam_pipelines.dataset import loader
from beam_pipelines.dataset.generations import left_behind, remove_left_behind, with_generation
from beam_pipelines.dataset.inspect import inspect_examples
from beam_pipelines.dataset.manifest import read_manifest
from beam_pipelines.dataset.verify import verify_dataset
from beam_pipelines.pipeline import commit
from beam_pipelines.pipeline.planning.append import file_key, new_files, plan_append
from beam_pipelines.pipeline.planning.recipes import load, parse_recipe
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.planner import plan_source
from beam_pipelines.storage import file_changes
from tests.dataset.test_loader import ids
from tests.support.image_files import write_digits
from tests.support.small_dataset import write_dataset

pytestmark = pytest.mark.end_to_end

RECIPE = """
name: visits
append: true
sources:
  visits: {path: "data/*.csv", types: {day: int64}}
  users: {path: users.jsonl, key: user}
from: visits
join:
  - {source: users, on: user, how: inner, prefix: user_}
filter: seconds >= 10
drop: [seconds]
label: late
schema: schema.pbtxt
on_error: {reject: 5%}
split: {train: 0.7, eval: 0.3, by: [user]}
output: {num_shards: 2}
"""
SCHEMA = """
feature { name: "user" type: BYTES presence { min_fraction: 1 min_count: 1 } shape { dim { size: 1 } } }
feature { name: "day" type: INT presence { min_fraction: 1 min_count: 1 } shape { dim { size: 1 } } }
feature { name: "late" type: INT presence { min_fraction: 1 min_count: 1 } shape { dim { size: 1 } } }
feature { name: "carrier" type: BYTES presence { min_count: 1 } value_count { min: 1 max: 1 }
  domain: "carrier" drift_comparator { infinity_norm { threshold: 0.5 } } }
feature { name: "user_age" type: INT presence { min_fraction: 1 min_count: 1 } shape { dim { size: 1 } } }
string_domain { name: "carrier" value: "AA" value: "B6" value: "UA" }
"""
FILES = ("a.csv", "b.csv", "c.csv")


def write_visits(
    path: Path, seed: int, rows: int = 300, carriers: str = "AA B6 UA", user: str = "u"
) -> None:
    """Writes visits of users, and one row with a bad day.

    Some users are unknown, some are null.
    """
    rng = random.Random(seed)
    lines = ["user,day,seconds,late,carrier"]
    for _ in range(rows):
        seconds, carrier = rng.choice(["", rng.randrange(600)]), rng.choice(["", *carriers.split()])
        lines.append(
            f"{user}{rng.randrange(60)},{rng.randrange(30)},{seconds},{rng.randrange(2)},{carrier}"
        )
    lines.append("u1,someday,20,0,AA")
    path.write_text("\n".join(lines) + "\n")


def run(folder: Path, output: str, *options: str) -> int:
    """Runs ``convert`` as a user does, and returns the exit status."""
    level = logging.getLogger().level
    arguments = ["convert", str(folder / "recipe.yaml"), "--output", str(folder / output)]
    try:
        return main_module.run([*arguments, "--direct_num_workers=1", *options])
    finally:
        logging.getLogger().setLevel(level)


def digests(folder: Path) -> dict[str, str]:
    """Returns path -> SHA-256 of all files of a folder."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
    }


def records(folder: Path, split: str, pattern: str = "*") -> Counter[bytes]:
    """Reads a split's shards, or some of them, with TensorFlow alone."""
    shards = tf.io.gfile.glob(str(folder / "examples" / f"Split-{split}" / pattern))
    return Counter(record.numpy() for record in tf.data.TFRecordDataset(shards, "GZIP"))


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Datasets after one, two and three files.

    The last one has all three files at once.
    """
    folder = tmp_path_factory.mktemp("history")
    (folder / "data").mkdir()
    (folder / "recipe.yaml").write_text(RECIPE)
    (folder / "schema.pbtxt").write_text(SCHEMA)
    (folder / "users.jsonl").write_text(
        "".join(f'{{"user": "u{n}", "age": {n % 90}}}\n' for n in range(50))
    )
    for generation, (name, copied) in enumerate(
        zip(FILES, ("one", "two", "three"), strict=True), 1
    ):
        write_visits(folder / "data" / name, generation)
        assert run(folder, "out") == 0
        shutil.copytree(folder / "out", folder / copied)
    assert run(folder, "whole") == 0
    return folder


@pytest.fixture
def visits(history: Path, tmp_path: Path) -> Path:
    """A folder with data, recipe and a dataset.

    The dataset has the first two files; the third is new.
    """
    for name in ("data", "two"):
        shutil.copytree(history / name, tmp_path / {"two": "out"}.get(name, name))
    for name in ("recipe.yaml", "schema.pbtxt", "users.jsonl"):
        shutil.copy2(history / name, tmp_path / name)
    return tmp_path


def test_generations_are_one_dataset(history: Path) -> None:
    """Rows, splits, statistics and schema equal one conversion; old shards stay."""
    whole, three = history / "whole", history / "three"
    for split in ("train", "eval"):
        assert records(three, split) == records(whole, split)
    for path in (
        "schema/schema.pbtxt",
        *(f"statistics/Split-{split}/FeatureStats.pb" for split in ("train", "eval")),
    ):
        assert (three / path).read_bytes() == (whole / path).read_bytes()
    found, expected = read_manifest(str(three)), read_manifest(str(whole))
    assert found["counts"] == expected["counts"]
    assert found["counts"]["rejected"] == len(FILES)
    assert found["sources"]["visits"] == expected["sources"]["visits"] | {
        "files": [
            file | {"generation": number}
            for number, file in enumerate(expected["sources"]["visits"]["files"], 1)
        ]
    }
    for earlier, later in (("one", "two"), ("two", "three")):
        before, after = digests(history / earlier), digests(history / later)
        parts = ("examples", "index", "transform_graph", "accumulators", "rejected")
        assert {
            path: digest for path, digest in before.items() if path.startswith(parts)
        }.items() <= after.items()


def test_each_generation_accounts_for_its_rows(history: Path) -> None:
    """A generation has its file's counts and rejected rows.

    ``verify`` checks it.
    """
    manifest = read_manifest(str(history / "three"))
    assert [generation["number"] for generation in manifest["generations"]] == [1, 2, 3]
    for generation in manifest["generations"]:
        counts = generation["counts"]
        assert counts["read"] == 300 == counts["written"] + counts["filtered"] + counts["dropped"]
        assert generation["sources"]["visits"] == {"read": 300, "rejected": 1, "files": 1}
        assert generation["sources"]["users"] == {"read": 50, "rejected": 0, "files": 1}
    for path, name in (
        ("visits.jsonl", "a.csv"),
        ("g2/visits.jsonl", "b.csv"),
        ("g3/visits.jsonl", "c.csv"),
    ):
        (line,) = (history / "three" / "rejected" / path).read_text().splitlines()
        assert json.loads(line)["file"].endswith(name)
    found = verify_dataset(str(history / "three"))
    assert (found.generations, found.shards, found.left_behind) == (3, 12, ())


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda manifest: manifest["generations"][1]["counts"].update(read=299),
            "generation 2, counts: found ",
        ),
        (
            lambda manifest: manifest["generations"][2]["counts"].update(written=1),
            "generation 3, counts: found 1 rows",
        ),
        (
            lambda manifest: manifest["splits"]["train"]["shards"][0].update(generation=2),
            "generation 1, counts: found ",
        ),
        (lambda manifest: manifest["generations"].pop(), "the sum of the generations"),
    ],
)
def test_generations_that_do_not_add_up(
    history: Path, tmp_path: Path, damage: Callable[[dict[str, Any]], Any], message: str
) -> None:
    """``verify`` finds generations whose rows differ from their shards or the whole."""
    shutil.copytree(history / "three", tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "dataset.json").read_text())
    damage(manifest)
    (tmp_path / "out" / "dataset.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match=message):
        verify_dataset(str(tmp_path / "out"))


def test_readers_take_one_generation_or_all(history: Path) -> None:
    """All readers agree on the rows of a generation.

    They are tf.data, tfx-bsl, load, info and inspect.
    """
    folder, three = history / "three", read_manifest(str(history / "three"))
    schema = text_format.Parse((folder / three["schema"]).read_text(), schema_pb2.Schema())
    decoder = ExamplesToRecordBatchDecoder(schema.SerializeToString())
    for number, pattern in ((1, "visits-0*"), (2, "visits-g2-*"), (3, "visits-g3-*")):
        found = records(folder, "train", pattern)
        expected = three["generations"][number - 1]["splits"]["train"]
        assert found.total() == expected["rows"]
        batch = decoder.DecodeBatch(list(found.elements()))
        assert batch.num_rows == expected["rows"]
        users = Counter(
            user[0] for user in batch.column(batch.schema.names.index("user")).to_pylist()
        )
        info = loader.info(folder, generations=number)
        assert info.splits["train"].framed_bytes == expected["framed_bytes"]
        batches = loader.load(folder, "train", generations=number, batch_size=32)
        assert (
            Counter(user for features, _ in batches for user in features["user"].numpy()[:, 0])
            == users
        )
        texts = list(inspect_examples(str(folder), 1000, "train", number))
        assert len(texts) == expected["rows"]
    every = loader.load(folder, "train", batch_size=32)
    some = loader.load(folder, "train", generations=[3, 1], batch_size=32)
    rows = [sum(len(label) for _, label in batches) for batches in (every, some)]
    sizes = [generation["splits"]["train"]["rows"] for generation in three["generations"]]
    assert rows == [sum(sizes), sizes[0] + sizes[2]]


@pytest.mark.parametrize("wanted", [0, 4, [1, 9], []])
def test_a_generation_that_there_is_not(history: Path, wanted: Any) -> None:
    """The error says how many generations there are."""
    with pytest.raises(ValueError, match="expected some of the 3 of"):
        loader.info(history / "three", generations=wanted)
    with pytest.raises(ValueError, match="expected one dataset, or no generations"):
        loader.load([history / "one", history / "two"], generations=1)
    if isinstance(wanted, int):
        with pytest.raises(RecipeError, match="expected one of the 3 there are"):
            list(inspect_examples(str(history / "three"), 5, None, wanted))


def test_several_shards_of_chosen_generations(tmp_path: Path) -> None:
    """``load`` takes the rows of the generations' shards, in order."""
    folder = Path(write_dataset(tmp_path, (3, 4, 5, 6)))
    manifest = json.loads((folder / "dataset.json").read_text())
    for shard, generation in zip(manifest["splits"]["train"]["shards"], (1, 2, 2, 3), strict=True):
        shard |= {"generation": generation, "crc32c": "00000000"}
    sizes = {1: 30, 2: 90, 3: 60}
    manifest["generations"] = [
        {
            "number": number,
            "directory": "",
            "counts": dict.fromkeys(
                ("read", "added", "dropped", "filtered", "merged", "written"), 0
            ),
            "splits": {
                name: {"rows": 0, "bytes": 0, "framed_bytes": size} for name in ("train", "eval")
            },
            "sources": {},
        }
        for number, size in sizes.items()
    ]
    (folder / "dataset.json").write_text(json.dumps(manifest))
    load = lambda wanted: ids(loader.load(folder, "train", shuffle=False, generations=wanted))  # noqa: E731
    assert load(None) == list(range(18))
    assert load(2) == list(range(3, 12))
    assert load((3, 1)) == [0, 1, 2, *range(12, 18)]
    assert loader.info(folder, (1, 2)).splits["train"].framed_bytes == 120


def test_nothing_new_touches_nothing(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run without a new file succeeds and changes nothing.

    The files may have new dates.
    """
    before = digests(history / "out")
    stamp = (history / "data" / "a.csv").stat()
    os.utime(history / "data" / "a.csv", (1, 1))
    try:
        assert run(history, "out") == 0
    finally:
        os.utime(history / "data" / "a.csv", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert "found no new file of 'visits'; there is nothing to append." in capsys.readouterr().out
    assert digests(history / "out") == before


def test_a_dry_run_tells_what_would_be_added(
    visits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A dry run names the generation and the new file.

    Nothing is written.
    """
    before = digests(visits / "out")
    assert run(visits, "out", "--dry_run") == 0
    printed = capsys.readouterr().out
    assert "plan of 'visits', generation 3: new files only" in printed
    assert "c.csv" in printed
    assert "a.csv" not in printed
    assert digests(visits / "out") == before


def test_drift_stops_an_append(visits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Drift by the schema's comparator stops the run; the dataset stays unchanged."""
    before = digests(visits / "out")
    write_visits(visits / "data" / "c.csv", 7, carriers="UA")
    assert run(visits, "out") == 1
    assert "carrier" in (error := capsys.readouterr().err)
    assert "COMPARATOR_L_INFTY_HIGH" in error
    after = digests(visits / "out")
    assert {
        path: digest for path, digest in after.items() if not path.startswith("rejected/_")
    } == before
    assert (
        verify_dataset(str(visits / "out")).rows
        == read_manifest(str(visits / "out"))["counts"]["written"]
    )


def test_overwrite_makes_one_generation(visits: Path) -> None:
    """--overwrite converts all files anew, as the first generation."""
    assert run(visits, "out", "--overwrite") == 0
    manifest = read_manifest(str(visits / "out"))
    assert len(manifest["generations"]) == 1
    assert manifest["counts"] == read_manifest(str(visits / "out"))["generations"][0]["counts"]
    assert not [path for path in digests(visits / "out") if "/g2/" in path or "-g2-" in path]
    verify_dataset(str(visits / "out"))


def moved(count: int, stop: Callable[[], None]) -> Callable[[list[tuple[str, str]]], None]:
    """Returns a ``file_changes.rename`` that stops after a number of renames."""
    original, left = file_changes.rename, [count]

    def rename(pairs: list[tuple[str, str]]) -> None:
        for pair in pairs:
            if not left[0]:
                stop()
            left[0] -= 1
            original([pair])

    return rename


class StoppedError(Exception):
    """Simulates the end of the process."""


def stopped() -> None:
    raise StoppedError


def stage(after: Path, before: Path | None, output: Path) -> tuple[str, list[str]]:
    """Creates a dataset, and files of another one in its temporary folder.

    Returns:
      The temporary folder, and the paths to move.
    """
    if before is not None:
        shutil.copytree(before, output)
    old, temporary = digests(before) if before else {}, str(output / "_temporary")
    changed = [
        path
        for path, digest in digests(after).items()
        if old.get(path) != digest and path != "dataset.json"
    ]
    for path in [*changed, "dataset.json"]:
        target = Path(commit._stage(temporary, path))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(after / path, target)
    if before is not None:
        manifest = read_manifest(str(before))
        kept = {path: sums for path, sums in manifest["files"].items() if path not in changed}
        unchecked = Path(commit._stage(temporary, commit._UNCHECKED))
        unchecked.write_text(json.dumps({**manifest, "files": kept}))
    return temporary, [*changed, "dataset.json"]


def test_an_append_that_is_killed_leaves_the_old_dataset(
    history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed append leaves the manifest's dataset complete.

    This holds after any of the moves, and a rerun cleans up.
    """
    expected = digests(history / "three")
    for count in range(30):
        output = tmp_path / str(count)
        temporary, paths = stage(history / "three", history / "two", output)
        moves = len(paths) + 1  # first a manifest without the checksums of what is replaced
        if count > moves:
            break
        with monkeypatch.context() as patched:
            patched.setattr(file_changes, "rename", moved(count, stopped))
            if count < moves:
                with pytest.raises(StoppedError):
                    commit._add(str(output), temporary, paths)
            else:
                commit._add(str(output), temporary, paths)
        found, generations = verify_dataset(str(output)), 3 if count == moves else 2
        assert found.generations == generations
        assert bool(found.left_behind) == (1 < count < moves)
        assert read_accumulators(str(output)).splits["train"].rows == found_rows(output)
        again = tmp_path / f"{count} again"
        shutil.copytree(output, again)
        commit._add(str(again), str(again / "_temporary"), paths)
        shutil.rmtree(again / "_temporary")
        assert digests(again) == expected
        remove_left_behind(str(output))
        assert not list(left_behind(str(output), read_manifest(str(output))))
    assert count > moves


def found_rows(folder: Path) -> int:
    """Returns the rows of ``train`` by the manifest."""
    return int(read_manifest(str(folder))["splits"]["train"]["rows"])


@pytest.mark.parametrize("before", ["two", None], ids=["over a dataset", "into a new folder"])
def test_a_commit_that_is_killed_can_be_repeated(
    history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    """A killed commit leaves a dataset or none.

    This holds after any of the moves, and a retry makes the new dataset.
    """
    expected = digests(history / "whole")
    (tmp_path / "empty").mkdir()
    for count in range(40):
        output = tmp_path / str(count)
        temporary, _ = stage(history / "whole", None, output)
        paths = [*(path for path in expected if path != "dataset.json"), "dataset.json"]
        if before:
            shutil.copytree(history / before, output, dirs_exist_ok=True)
        is_done = True
        with monkeypatch.context() as patched:
            patched.setattr(file_changes, "rename", moved(count, stopped))
            try:
                commit._replace(str(output), temporary, paths)
            except StoppedError:
                is_done = False
        assert (output / "dataset.json").exists() == is_done
        commit._replace(str(output), temporary, paths)
        shutil.rmtree(temporary)
        assert digests(output) == expected
        if is_done:
            break
    assert is_done
    assert count > 5


def test_a_run_after_a_kill_appends_as_if_nothing_had_been(visits: Path, history: Path) -> None:
    """SIGKILL before the manifest keeps the old dataset.

    The next run appends as usual.
    """
    script = textwrap.dedent(f"""
        import os, signal
        from beam_pipelines.storage import file_changes
        from beam_pipelines.pipeline import commit, convert
        from beam_pipelines.pipeline.planning.append import plan_append
        from beam_pipelines.pipeline.planning.recipes import load
        rename = file_changes.rename
        moved = []
        def killed(pairs):
            if pairs[0][1].endswith("dataset.json"):
                if moved:
                    os.kill(os.getpid(), signal.SIGKILL)
                moved.append(pairs)
            rename(pairs)
        file_changes.rename = killed
        plan = plan_append(load({str(visits / "recipe.yaml")!r}), {str(visits / "out")!r})
        convert.convert(plan, {str(visits / "out")!r}, beam_options=["--direct_num_workers=1"], quiet=True)
    """)
    before = read_manifest(str(visits / "out"))
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -signal.SIGKILL
    found = read_manifest(str(visits / "out"))
    assert {**found, "files": {}} == {**before, "files": {}}
    assert found["files"].items() < before["files"].items()
    assert len(verify_dataset(str(visits / "out")).left_behind) >= 4
    assert run(visits, "out") == 0
    expected, found = digests(history / "three"), digests(visits / "out")
    own = ("dataset.json", "report.html")
    # A rejected row names its file, which is in another folder.
    assert {
        path: digest
        for path, digest in found.items()
        if path not in own and not path.startswith("rejected")
    } == {
        path: digest
        for path, digest in expected.items()
        if path not in own and not path.startswith("rejected")
    }


def test_an_append_that_broke_off_is_resumed(
    visits: Path, history: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its finished shards are reused, and the dataset equals an undisturbed append."""
    before = digests(visits / "out")

    def refuse(*_: object) -> None:
        raise DataError("refused")

    with monkeypatch.context() as patch:
        patch.setattr(commit, "check_written", refuse)
        assert run(visits, "out") == 1
    assert "finished: run again with --resume" in capsys.readouterr().err
    left = {
        path.name: path.stat().st_ino
        for path in (visits / "out" / "_temporary" / "examples").rglob("*-of-*")
    }
    assert len(left) >= 2
    assert {
        path: digest for path, digest in digests(visits / "out").items() if "_temporary" not in path
    } == before
    assert run(visits, "out", "--resume") == 0
    shards = {
        path.name: path.stat().st_ino for path in (visits / "out" / "examples").rglob("*-g3-*-of-*")
    }
    assert shards == left
    found, expected = digests(visits / "out"), digests(history / "three")
    for path in [
        path
        for path in expected
        if path.split("/")[0] in ("examples", "statistics", "schema", "accumulators")
    ]:
        assert found[path] == expected[path], path
    assert verify_dataset(str(visits / "out")).left_behind == ()


ENCODED = """
name: rides
append: true
sources: {rides: "data/*.csv"}
drop: [seconds]
encode:
  user: {vocabulary: {num_oov: 1}}
  day: z_score
split: {train: 0.7, eval: 0.3, by: [user]}
output: {num_shards: 1}
"""


def encoded_pairs(folder: Path, generation: int) -> list[tuple[int, float]]:
    """Returns encoded user and day of all rows of a generation."""
    pairs = []
    for name in ("train", "eval"):
        for features in loader.load(folder, name, label=False, generations=generation):
            users, days = (features[feature].numpy()[:, 0].tolist() for feature in ("user", "day"))
            pairs += zip(users, days, strict=True)
    return pairs


def test_encodings_are_not_fitted_again(tmp_path: Path) -> None:
    """An append does not fit encodings again.

    New users get unknown ids, scales stay, and an inferred schema gains new strings.
    """
    (tmp_path / "data").mkdir()
    (tmp_path / "recipe.yaml").write_text(ENCODED)
    visit = "user,day,seconds,late,carrier\n"
    (tmp_path / "data" / "a.csv").write_text(
        visit + "".join(f"u{n % 9},{n % 4},1,0,AA\n" for n in range(200))
    )
    assert run(tmp_path, "out") == 0
    graph = bp.make_graph(tmp_path / "out")
    before = digests(tmp_path / "out")
    tokens = (Path(graph) / "assets" / "user").read_text().split()
    (tmp_path / "data" / "b.csv").write_text(
        visit + "".join(f"{'u' if n % 2 else 'new'}{n % 9},100,1,0,ZZ\n" for n in range(60))
    )
    assert run(tmp_path, "out") == 0
    after = digests(tmp_path / "out")
    assert {path for path in before if path.startswith("transform_graph")} == {
        path for path in after if path.startswith("transform_graph") and before[path] == after[path]
    }
    scaled = sorted({day for _, day in encoded_pairs(tmp_path / "out", 1)})  # of 0, 1, 2 and 3
    added = encoded_pairs(tmp_path / "out", 2)
    assert len({day for _, day in added}) == 1
    assert added[0][1] == pytest.approx(scaled[0] + 100 * (scaled[1] - scaled[0]), rel=1e-4)
    unknown = len(tokens)  # the id behind those of all tokens
    ids_of_known = {tokens.index(f"u{n}") for n in range(9) if f"u{n}" in tokens}
    found = Counter(user for user, _ in added)
    assert found.keys() <= {*ids_of_known, unknown}
    assert found[unknown] >= 30
    schema = (tmp_path / "out" / "schema" / "schema.pbtxt").read_text()
    assert '"ZZ"' in schema
    verify_dataset(str(tmp_path / "out"))


def test_small_files_are_known_one_by_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """New images of a source are added; a changed one is named.

    The source reads its images together.
    """
    write_digits(tmp_path / "photos", 40)
    recipe = (
        "name: digits\nappend: true\nsources: {p: {path: photos, format: images}}\nencode: "
        "{image/height: {cast: float32}}\n"
    )
    (tmp_path / "recipe.yaml").write_text(recipe)
    assert run(tmp_path, "out") == 0
    for path in write_digits(tmp_path / "more", 50):
        if not (tmp_path / "photos" / path).exists():
            shutil.copy(tmp_path / "more" / path, tmp_path / "photos" / path)
    touch(tmp_path / "photos" / "one" / "0001.png")
    assert run(tmp_path, "out") == 0
    manifest = read_manifest(str(tmp_path / "out"))
    assert [generation["counts"]["written"] for generation in manifest["generations"]] == [40, 10]
    assert [(file["files"], file["generation"]) for file in manifest["sources"]["p"]["files"]] == [
        (40, 1),
        (10, 2),
    ]
    names = [
        name
        for features in loader.load(tmp_path / "out", images=False, label=False)
        for name in features["image/filename"].numpy()[:, 0]
    ]
    assert len(set(names)) == 50
    changed = min((tmp_path / "photos" / "zero").iterdir())
    content = bytearray(changed.read_bytes())
    content[-1] ^= 1
    changed.write_bytes(content)
    assert run(tmp_path, "out") == 1
    assert str(changed) in (error := capsys.readouterr().err)
    assert "with --overwrite" in error


@pytest.mark.parametrize(
    ("path", "directory", "expected"),
    [
        ("data/a.csv", "", "data/a.csv"),
        ("recipes/data/a.csv", "recipes", "data/a.csv"),
        ("recipes/../data/a.csv", "recipes", "../data/a.csv"),
        ("/mnt/recipes/data/a.csv", "/mnt/recipes", "data/a.csv"),
        ("/mnt/recipes/../data/a.csv", "/mnt/recipes", "../data/a.csv"),
        ("/data/a.csv", "/mnt/recipes", "/data/a.csv"),
        ("/data/a.csv", "", "/data/a.csv"),
        ("gs://bucket/data/a.csv", "gs://bucket", "data/a.csv"),
        ("gs://bucket/data/a.csv", "recipes", "gs://bucket/data/a.csv"),
    ],
)
def test_files_are_known_by_where_the_recipe_sees_them(
    path: str, directory: str, expected: str
) -> None:
    """A recipe finds a dataset's files when both move.

    They are moved together, or named from another folder.
    """
    assert file_key(path, directory) == expected


def entry_of(path: Path) -> dict[str, Any]:
    """Returns a manifest's entry of a one-range file, by the documented formula."""
    data = path.read_bytes()
    crc = google_crc32c.value(struct.pack("<I", google_crc32c.value(data)))
    return {
        "path": str(path),
        "bytes": len(data),
        "modified": path.stat().st_mtime,
        "fingerprint": f"crc32c:{crc:08x}",
        "generation": 1,
    }


def touch(path: Path) -> None:
    os.utime(path, (5, 5))


def rewrite(path: Path) -> None:
    path.write_text(path.read_text().replace("1", "2"))
    os.utime(path, (5, 5))


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        (lambda _: None, []),
        (lambda folder: (folder / "c.csv").write_text("x\n5\n"), ["c.csv"]),
        (lambda folder: touch(folder / "a.csv"), []),
        (
            lambda folder: rewrite(folder / "a.csv"),
            r"a\.csv: found other content than then \(crc32c:",
        ),
        (
            lambda folder: (folder / "b.csv").write_text("x\n1\n2\n3\n"),
            r"b\.csv: found 8 bytes, expected 6",
        ),
        (lambda folder: (folder / "b.csv").unlink(), r"b\.csv: found nothing, expected 6 bytes"),
    ],
    ids=["nothing", "added", "touched", "rewritten", "grown", "gone"],
)
def test_what_became_of_files(tmp_path: Path, change: Callable[[Path], Any], outcome: Any) -> None:
    """A new file is found; a changed or missing one fails."""
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("x\n1\n2\n")
    sources = {"t": {"files": [entry_of(tmp_path / name) for name in ("a.csv", "b.csv")]}}
    generation = {"number": 1, "directory": str(tmp_path), "sources": {"t": {}}}
    manifest = {"sources": sources, "generations": [generation]}
    change(tmp_path)
    plan = plan_source(Source("t", ("*.csv",)), str(tmp_path))
    if isinstance(outcome, list):
        found = new_files(str(tmp_path), manifest, plan, str(tmp_path))
        assert [Path(file.path).name for file in found] == outcome
    else:
        with pytest.raises(DataError, match=f"(?s)--overwrite.*{outcome}"):
            new_files(str(tmp_path), manifest, plan, str(tmp_path))


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("num_shards: 2", "shard_size: 1 MiB, shuffle_seed: 3, level: 2", ""),
        ("reject: 5%", "reject: 10%", ""),
        ("how: inner", "how: inner, strategy: hash", ""),
        ("data/*.csv", "*/*.csv", ""),
        ("seconds >= 10", "seconds >= 20", "filter"),
        ("how: inner", "how: left", "join"),
        ("num_shards: 2", "num_shards: 2, compression: none", "output"),
        ("users.jsonl", "data/../users.jsonl", "sources"),
        ("train: 0.7, eval: 0.3", "train: 0.8, eval: 0.2", "split"),
        ("label: late", "label: late\nencode: {day: {cast: float32}}", "encode"),
        ("schema: schema.pbtxt", "", "schema"),
    ],
)
def test_which_recipes_may_append(visits: Path, old: str, new: str, named: str) -> None:
    """Options of packing may change.

    Options that shape rows may not, and are named.
    """
    assert old in RECIPE
    (visits / "recipe.yaml").write_text(RECIPE.replace(old, new))
    recipe = load(str(visits / "recipe.yaml"))
    if not named:
        plan = plan_append(recipe, str(visits / "out"))
        assert [Path(file.path).name for file in plan.base.files] == ["c.csv"]
        return
    with pytest.raises(RecipeProblems) as error:
        plan_append(recipe, str(visits / "out"))
    assert {problem.path[0] for problem in error.value.problems} == {named}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("sequence: {group_by: x}", "'group_by'"),
        ("sources: {t: {path: t.csv, key: x}}", "'key' of the source 't'"),
        ("sources: {t: 't/{date}.csv'}", "a pattern that matches those of all"),
    ],
)
def test_recipes_that_cannot_append(change: str, message: str) -> None:
    """Options that depend on earlier rows are refused.

    The reader of the recipe refuses them.
    """
    source = "" if "sources" in change else "sources: {t: t.csv}\n"
    with pytest.raises(RecipeError, match=message):
        parse_recipe(f"name: t\nappend: true\n{source}{change}\n", "r.yaml")


def test_a_manifest_with_one_generation_more(history: Path) -> None:
    """Numbers add up, lists are concatenated, and neither manifest changes."""
    one, two = (read_manifest(str(history / name)) for name in ("one", "two"))
    added = copy.deepcopy(one)
    added["generations"][0]["number"] = 2
    before = copy.deepcopy((one, added))
    both = with_generation(one, added)
    assert (one, added) == before
    assert both["counts"] == {key: 2 * value for key, value in one["counts"].items()}
    assert both["splits"]["train"]["shards"] == one["splits"]["train"]["shards"] * 2
    assert both["joins"][0]["matched"] == 2 * one["joins"][0]["matched"]
    assert both.keys() == two.keys()
