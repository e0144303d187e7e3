"""Recipes: every problem is explained, and an accepted recipe can be planned.

The plan is over existing tables, or its problems are explained.

Input: the YAML text.
"""

from __future__ import annotations

import functools
import json
import os
import random
from collections.abc import Iterator
from typing import Any

import yaml

from beam_pipelines.core.errors import RecipeProblems
from beam_pipelines.encodings import ENCODING_FOR_KIND
from beam_pipelines.pipeline.planning import recipes
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.normal_form import normalised, recipe_hash
from beam_pipelines.recipe.text.lines import explain
from beam_pipelines.sources import FORMATS
from tests.fuzz import mutations, scratch
from tests.fuzz.finding import explained, require
from tests.fuzz.target import Target

_TABLES = {
    "a.csv": b"id,x,y,t,d,user\n1,0.5,red,2013-01-31 "
    b"05:15:00,2013-01-31,u1\n2,1.5,blue,2013-02-01 "
    b"05:15:00,2013-02-01,u2\n3,,red,2013-02-02 05:15:00,2013-02-02,u1\n",
    "b.csv": b"user,age,name\nu1,33,Ada\nu2,44,Bob\n",
    "c.jsonl": b'{"id": 1, "l": [1, 2], "s": ["a"], "o": {"p": 1.5}}\n{"id": 2, "l": [], "s": '
    b'["b", "c"], "o": {"p": 2}}\n',
    "d.libfm": b"1 0:0.5 3:2\n0 1:1\n",
}
_KEYS = (
    "name", "sources", "from", "join", "filter", "derive", "drop", "keep", "sequence", "encode", "fit", "label", "split", "statistics", "on_error", "output", "limits", "path", "format",
    "compression", "key", "delimiter", "quote", "header", "columns", "nulls", "types", "infer", "libsvm", "image", "idx", "source", "on", "how", "prefix", "strategy", "features", "group_by",
    "order_by", "context", "max_length", "splits", "weight", "slice_by", "reject", "shard_size", "num_shards", "shards_multiple_of", "level", "shuffle", "shuffle_seed", "floats", "record",
    "vocabulary", "bucketize", "one_hot", "hash", "z_score", "cast", "fill", "scale", "min_max", "log", "tokenize", "top_k", "num_oov", "train", "eval", "by", "where", "files", "append", "a", "x",
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 3, 0.5, 1e308, float("inf"), 10**39, 2**63, "", "a", "x", "id", "a.csv", "b.csv", "c.jsonl", "d.libfm", "*.csv", "user", "gzip", "none", "0.1%", "50%", "128 MiB", "1e3", "1 PB",
    "x > 1", "x +", "1; DROP TABLE t", "read_csv('a.csv')", "CAST(y AS INT)", "'", "(((((", "nul\0l", "\ud7ff", "é", "vocabulary", "z_score", "{date}", "[", "a" * 300, [], {}, ["a"], {"a": 1}, [["a"]],
    "SELECT 1", "sum(x)", "x IN (SELECT 1)", "list_value(1, 2)", ("CASE WHEN x > 1 "
                                                                 "THEN 'a' END"), "t - INTERVAL 1 DAY", "epoch(t)", "regexp_matches(y, '(a+)+$')", "int64", "float32", "text", "list<int64>", "tensor",
)  # fmt: skip
_SQL = tuple(
    value
    for value in _VALUES
    if isinstance(value, str) and {"(", ">", " ", "'", "+"} & set(value) and "\0" not in value
)
_TOKENS = [
    *(bytes([byte]) for byte in b":-[]{},&*!|>'\"%@`#? \t\n\r\0\xff\x85"),
    b"\n  ", b": ", b"- ", b"&a ", b"*a", b"<<: *a", b"!!int ", b"!!python/object:os.system ", b"!!binary |", b"---\n", b"...\n", b"? ", b"|\n", b">-\n", b"{a: 1}", b"[1, 2]", b"~", b"1e5", b"0x10", b"1_000",
    b"0o7", b"2013-01-31", b"yes", b"\xef\xbb\xbf", b"\xff\xfe", b"%YAML 1.2\n", b"[" * 40, b"{a: " * 40, b"\\u0000", b'"\\x"', b"\xf0\x9f\x98\x80", b"\xed\xa0\x80", *(key.encode() + b": " for key in _KEYS[:40]),
]  # fmt: skip


@functools.cache
def folder() -> str:
    """Returns the folder of the tables."""
    for name, content in _TABLES.items():
        path = scratch.write("recipe", name, content)
    return os.path.dirname(path)


def run(data: bytes) -> None:
    """Reads a recipe, and plans it if it uses our tables only."""
    directory = folder()
    path = scratch.write("recipe", "recipe.yaml", data)
    recipe, why = explained(lambda: recipes.load(path))
    if recipe is None:
        require(path in why, "recipe: an error without its file", why)
        return
    json.dumps(normalised(recipe))
    require(
        recipe_hash(recipe) == recipe_hash(recipes.load(path)), "recipe: another hash the next time"
    )
    if not is_ours(recipe, directory):
        return
    try:
        plan, _ = explained(lambda: planned(recipe))
    except RecipeProblems as error:
        require(
            bool(str(explain(error.problems, recipe.lines))), "recipe: a problem without a message"
        )
        return
    if plan is not None:
        require(bool(plan.describe()), "recipe: a plan without words")


def planned(recipe: Recipe) -> Plan:
    """Plans a conversion."""
    return make_plan(recipe)


def is_ours(recipe: Recipe, directory: str) -> bool:
    """Whether a recipe reads nothing but our tables.

    Others may be anywhere, or a whole disk.
    """
    paths = [
        path
        for source in recipe.sources.values()
        for paths in (
            source.path,
            *FORMATS["idx"].paths_of(source).values(),
            *FORMATS["tfrecord"].paths_of(source).values(),
        )
        for path in paths
    ]
    return (
        recipe.directory == directory
        and set(paths) <= set(_TABLES)
        and recipe.preprocessing_fn is None
        and recipe.schema is None
    )


def seeds() -> list[bytes]:
    """Recipes with most keys, and some that are wrong."""
    trees: list[Any] = [
        {"name": "a", "sources": {"a": {"path": "a.csv"}}},
        {
            "name": "a", "sources": {"a": {"path": "a.csv", "types": {"x": "float64"}, "nulls": ["", "-"]}, "b": {"path": "b.csv", "key": "user"}}, "from": "a",
            "join": [{"source": "b", "on": "user", "how": "left", "prefix": "b_"}], "filter": "x > 0", "derive": {"z": "x + 1"}, "drop": ["t"],
            "encode": {"y": "vocabulary", "x": [{"fill": 0}, "z_score"], "b_age": {"bucketize": 3}}, "label": "id", "split": {"train": 0.8, "eval": 0.2, "by": ["user"]},
            "output": {"shard_size": "1 MiB", "compression": "gzip", "level": 3, "shuffle_seed": 7}, "statistics": {"slice_by": ["y"]}, "on_error": {"reject": "1%"},
        },
        {"name": "s", "sources": {"a": {"path": ["a.csv"]}}, "sequence": {"group_by": "user", "order_by": "t", "max_length": 5}, "keep": ["user", "x", "t"]},
        {"name": "c", "sources": {"c": {"path": "c.jsonl", "columns": ["id", "l", "o.p"]}}, "split": {"train": 0.5, "eval": 0.5}, "encode": {"l": {"multi_hot": 5}}},
        {"name": "d", "sources": {"d": {"path": "d.libfm", "libsvm": {"size": 10, "name": "f"}}}, "label": "label", "output": {"num_shards": 2, "floats": "exact", "shuffle": False}},
    ]  # fmt: skip
    trees += [
        trees[0] | {"encode": {column: kind}} for kind in ENCODING_FOR_KIND for column in ("x", "y")
    ]
    trees += [trees[0] | {"filter": sql, "derive": {"n": sql}} for sql in _SQL]
    texts = [yaml.safe_dump(tree, sort_keys=False).encode() for tree in trees]
    return [
        *texts,
        b"",
        b"[]",
        b"name: a\nname: b\n",
        b"a: &a [1, 2]\nb: *a\n",
        b"name: !!python/object:os.system x\n",
        b"\xff\xfe",
    ]


def places_in(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the path of every value of a tree."""
    yield path
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from places_in(value, (*path, key))
    if isinstance(tree, list):
        for number, value in enumerate(tree):
            yield from places_in(value, (*path, number))


def changed(tree: Any, path: tuple[Any, ...], chance: random.Random) -> Any:
    """Returns a tree with one change at a path.

    The value is replaced, renamed, added to or left out.
    """
    if path:
        key, *rest = path
        items = list(tree.items()) if isinstance(tree, dict) else list(enumerate(tree))
        made = []
        for other, value in items:
            if other != key:
                made.append((other, value))
            elif rest or chance.randrange(5):
                name = chance.choice(_KEYS) if not rest and not chance.randrange(4) else other
                made.append((name, changed(value, tuple(rest), chance)))
        return dict(made) if isinstance(tree, dict) else [value for _, value in made]
    if isinstance(tree, dict) and chance.randrange(3):
        return tree | {chance.choice(_KEYS): chance.choice(_VALUES)}
    if isinstance(tree, list) and chance.randrange(3):
        return [*tree, chance.choice((*tree, *_VALUES))]
    if isinstance(tree, int) and not isinstance(tree, bool) and chance.randrange(2):
        return mutations.near(tree, chance)
    return chance.choice((chance.choice(_VALUES), [tree], {chance.choice(_KEYS): tree}))


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Changes the tree's values and keys, or splices tokens."""
    if not chance.randrange(5):
        return mutations.splice(data, _TOKENS, chance)
    try:
        tree = yaml.safe_load(data)
    except Exception:  # noqa: BLE001 - PyYAML raises what it happens to
        return mutations.splice(data, _TOKENS, chance)
    if isinstance(tree, dict) and not chance.randrange(5):
        sql = mutations.splice(
            chance.choice(_SQL).encode(),
            [text.encode() for text in _SQL] + [b"(", b")", b",", b"'"],
            chance,
        )
        text = sql.decode("utf-8", "replace")
        tree[chance.choice(("filter", "derive"))] = chance.choice((text, {"n": text}))
    for _ in range(chance.choice((0, 1, 1, 2, 3))):
        tree = changed(tree, chance.choice(list(places_in(tree))[:2_000]), chance)
    try:
        return yaml.safe_dump(
            tree,
            sort_keys=False,
            allow_unicode=True,
            default_flow_style=chance.choice((None, True, False)),
        ).encode("utf-8", "replace")
    except (yaml.YAMLError, RecursionError):
        return data


TARGET = Target(run, seeds, mutate, max_bytes=2000)
