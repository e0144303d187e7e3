"""``dataset.json``, changed in any way, is followed or refused.

verify, inspect, info and load read the dataset as it says, or say what is wrong. Input: lines of
``path<TAB>value``, which change the manifest of a small dataset: keys and numbers with ``/``
between them, and JSON (nothing leaves the key out); or, if it begins with ``{``, all of the
manifest.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pathlib
import random
from collections.abc import Iterator
from typing import Any

from beam_pipelines.cli import main as main_module
from beam_pipelines.core.layout.dataset_layout import MANIFEST
from beam_pipelines.dataset import inspect, loader, verify
from beam_pipelines.reader.dataset import Dataset
from tests.fuzz import mutations, scratch
from tests.fuzz.finding import explained, require
from tests.fuzz.target import Target

_RECIPE = b"""name: a
sources: {a: {path: a.csv}}
split: {train: 0.5, eval: 0.5}
label: y
output: {num_shards: 2, compression: gzip}
"""
_TABLE = b"x,y\n" + b"".join(b"%d,%s\n" % (row, (b"red", b"blue")[row % 2]) for row in range(20))
_VALUES: tuple[Any, ...] = (
    None, True, 0, 1, -1, 2**63, 2**70, 1e308, 0.5, "", "a", "..", "../..", "/", "/etc/passwd", "examples", "dataset.json", "schema/schema.pbtxt", "examples/Split-train", "\0", "\ud800", "é", "*", "gs://a/b",
    "gzip", "zlib", "none", "raw", "example", "sequence_example", "y", "x", [], [1], ["a"], [None], {}, {"a": 1}, [[]], "a" * 5000,
)  # fmt: skip
# What readers look at; the rest of the manifest is for people.
_READ = (
    "format_version", "schema", "label", "labels", "encodings", "record", "compression", "splits",
    "counts", "sources",
)  # fmt: skip


@functools.cache
def original() -> tuple[str, dict[str, Any]]:
    """Converts a table, once, and returns the dataset's folder and its manifest."""
    recipe = scratch.write("manifest", "recipe.yaml", _RECIPE)
    scratch.write("manifest", "a.csv", _TABLE)
    folder = os.path.join(os.path.dirname(recipe), "out")
    with (
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        status = main_module.run(["convert", recipe, "--output", folder, "--quiet"])
    require(status == 0, "manifest: no dataset to begin with")
    return folder, json.loads(pathlib.Path(folder, MANIFEST).read_text())


def run(data: bytes) -> None:
    """Reads the changed dataset in every way."""
    folder, tree = original()
    content = (
        data
        if data.startswith(b"{")
        else json.dumps(edited(tree, data)).encode("utf-8", "surrogatepass")
    )
    with open(os.path.join(folder, MANIFEST), "wb") as file:
        file.write(content)
    verified, _ = explained(lambda: verify.verify_dataset(folder))
    explained(lambda: list(inspect.inspect_examples(folder, 3)))
    found, _ = explained(lambda: described(folder))
    if verified is not None:
        require(verified.rows <= 40, "manifest: more rows than there are", verified)
    if found is not None and found and len(data) % 8 == 1:
        explained(lambda: loaded(folder, found))


def described(folder: str) -> str:
    """Returns the first split of an open dataset.

    It asks for everything that the dataset knows before.
    """
    dataset = Dataset(folder)
    for name, rows in dataset.splits.items():
        require(
            isinstance(rows, int) and rows >= 0,
            "manifest: rows that are no number",
            f"{name} {rows}",
        )
    if not dataset.splits:
        return ""
    dataset.feature_spec()
    dataset.feature_spec(lists=True)
    dataset.labels()
    return next(iter(dataset.splits))


def loaded(folder: str, split: str) -> None:
    """Loads a batch.

    TensorFlow's own error is fine for records that differ from the manifest.
    """
    import tensorflow as tf

    with contextlib.suppress(tf.errors.OpError):
        for _ in loader.load(folder, split, batch_size=4, shuffle=False).take(1):
            pass


def edited(tree: Any, data: bytes) -> Any:
    """Returns a manifest with the changes of an input."""
    for line in data.decode("utf-8", "replace").splitlines():
        path, tab, text = line.partition("\t")
        try:
            value = json.loads(text) if tab else None
        except (ValueError, RecursionError):
            value = text
        tree = put(tree, path.split("/"), value, is_left_out=not tab)
    return tree


def put(tree: Any, path: list[str], value: Any, is_left_out: bool) -> Any:
    """Returns a tree with a value at a path that exists."""
    key, *rest = path
    items: dict[str, Any] = (
        dict(tree)
        if isinstance(tree, dict)
        else {str(place): item for place, item in enumerate(tree)}
        if isinstance(tree, list)
        else {}
    )
    if not isinstance(tree, (dict, list)):
        return value
    if rest and key in items:
        items[key] = put(items[key], rest, value, is_left_out)
    elif is_left_out:
        items.pop(key, None)
    else:
        items[key] = value
    return items if isinstance(tree, dict) else list(items.values())


def places(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yields the path of every value below the top."""
    if path:
        yield path
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from places(value, (*path, key))
    if isinstance(tree, list):
        for place, value in enumerate(tree):
            yield from places(value, (*path, str(place)))


def seeds() -> list[bytes]:
    """No change, some, and manifests that are none."""
    edits = [
        "",
        "splits/train/rows\t1",
        'splits/train/shards/0/path\t"../x"',
        'compression\t"none"',
        'record\t"raw"',
        "label\tnull",
        "counts/read\t1",
        "splits\t{}",
        "format_version\t2",
        "schema",
    ]
    return [
        *(edit.encode() for edit in edits),
        b"{}",
        b"{",
        b'{"format_version": 1}',
        b'{"format_version": 1, "splits": {}}',
    ]


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Changes a place, mostly one that readers use, or splices tokens."""
    if data.startswith(b"{") or not chance.randrange(8):
        return mutations.splice(
            data,
            [b"\t", b"\n", b"/", b"{", b"}", b"[", b"]", b'"', b"null", b"1", b"\xff", b"[" * 200],
            chance,
        )
    _, tree = original()
    chosen = {key: tree[key] for key in _READ if key in tree} if chance.randrange(8) else tree
    lines = data.decode("utf-8", "replace").splitlines()
    for _ in range(chance.choice((1, 1, 1, 2))):
        path = "/".join(chance.choice(list(places(chosen))))
        text = json.dumps(chance.choice(_VALUES))
        lines.append(
            chance.choice(
                (
                    f"{path}\t{text}",
                    f"{path}\t{text}",
                    f"{path}\t{mutations.near(chance.randrange(30), chance)}",
                    path,
                )
            )
        )
    if len(lines) > 4:
        del lines[chance.randrange(len(lines))]
    return "\n".join(lines).encode("utf-8", "replace")


TARGET = Target(run, seeds, mutate, max_bytes=2000)
