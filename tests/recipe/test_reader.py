"""Recipe files: the values that they become, and every mistake."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import re
import textwrap
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.checks.duplicates import Duplicates
from beam_pipelines.checks.expectations import Expectation
from beam_pipelines.checks.leaks import Leaks
from beam_pipelines.core.errors import Problem, RecipeError
from beam_pipelines.core.limits import MIB, Limits
from beam_pipelines.core.process import plugins
from beam_pipelines.pipeline.planning import recipes
from beam_pipelines.recipe import reader
from beam_pipelines.recipe.joins import AsOf, Join, Window
from beam_pipelines.recipe.keys import keys_of
from beam_pipelines.recipe.model import Recipe, Source
from beam_pipelines.recipe.normal_form import recipe_hash
from beam_pipelines.recipe.output import Output
from beam_pipelines.recipe.sections import Fit, OnError, Sample, Sequences, Statistics
from beam_pipelines.recipe.splits import Split, TimeSplit
from beam_pipelines.recipe.text import lines
from beam_pipelines.recipe.text.yaml import parse_yaml
from beam_pipelines.recipe.unions import Union
from beam_pipelines.recipe.values import Value
from beam_pipelines.sources import FORMATS
from beam_pipelines.sources.images.idx import IdxOptions
from beam_pipelines.sources.images.options import ImageOptions
from beam_pipelines.sources.libsvm.format import Libsvm
from beam_pipelines_plugins.personal.check import Pii
from tests.support.made_source import made_source


class Encoding:
    """Stands in for encodings: takes any parameters but ``wrong``."""

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Encoding:
        if "wrong" in parameters:
            raise ValueError("found 'wrong'.")
        return cls()


ENCODINGS = dict.fromkeys(("cast", "vocabulary", "bucketize", "fill", "z_score"), Encoding)
DOCS = pathlib.Path(__file__).parents[2] / "docs"

FLIGHTS = """\
name: flights
sources:
  flights: {path: data/flights.csv}
  planes:  {path: data/planes.csv, key: tailnum}
  weather: {path: [data/weather-1.csv, data/weather-2.csv], nulls: [NA, null, -999]}
from: flights
join:
  - {source: planes,  on: tailnum, how: left, prefix: plane_}
  - {source: weather, on: [origin, time_hour], how: inner, prefix: weather_, strategy: hash}
filter: arr_delay IS NOT NULL
derive:
  late: arr_delay > 15
  one: 1
drop: [arr_delay, arr_time]
encode:
  carrier: vocabulary
  dest: {vocabulary: {top_k: 200, num_oov: 8}}
  distance: {bucketize: 10}
  dep_delay: [{fill: 0}, z_score]
label: late
split: {train: 0.8, eval: 0.2, by: [year, month, day]}
schema: ../../schemas/flights.pbtxt
on_error: {reject: 0.1%}
output: {shard_size: 128 MiB, compression: gzip, shuffle_seed: 7}
"""


def parse(text: str) -> Recipe:
    return recipes.parse_recipe(textwrap.dedent(text), "recipe.yaml", encodings=ENCODINGS)


def problems(text: str) -> list[str]:
    with pytest.raises(RecipeError) as caught:
        parse(text)
    return str(caught.value).split("\n")


def with_output(output: str) -> str:
    return f"name: a\nsources: {{a: a.csv}}\noutput: {output}\n"


OUTPUT = "name: a\nsources: {a: a.csv}\noutput: "


SOURCE = "name: a\nsources: {a: a.csv}\n"


UNION = "name: a\nsources: {a: a.csv, b: b.csv, u: "


def with_split(split: str) -> str:
    return f"name: a\nsources: {{a: a.csv}}\nsplit: {split}\n"


def with_source(source: str) -> str:
    return f"name: a\nsources:\n  a: {source}\n"


def test_design_recipe() -> None:
    """The recipe of the design page becomes the values it describes."""
    assert parse(FLIGHTS) == Recipe(
        name="flights",
        sources={
            "flights": Source("flights", ("data/flights.csv",)),
            "planes": Source("planes", ("data/planes.csv",), key=("tailnum",)),
            "weather": Source(
                "weather",
                ("data/weather-1.csv", "data/weather-2.csv"),
                nulls=("NA", "null", "-999"),
            ),
        },
        base="flights",
        join=(
            Join("planes", (("tailnum", "tailnum"),), prefix="plane_"),
            Join(
                "weather",
                (("origin", "origin"), ("time_hour", "time_hour")),
                "inner",
                "weather_",
                "hash",
            ),
        ),
        filter="arr_delay IS NOT NULL",
        derive={"late": "arr_delay > 15", "one": "1"},
        drop=("arr_delay", "arr_time"),
        encode={
            "carrier": (("vocabulary", {}),),
            "dest": (("vocabulary", {"top_k": 200, "num_oov": 8}),),
            "distance": (("bucketize", {"value": 10}),),
            "dep_delay": (("fill", {"value": 0}), ("z_score", {})),
        },
        label="late",
        split=Split({"train": 0.8, "eval": 0.2}, by=("year", "month", "day")),
        schema="../../schemas/flights.pbtxt",
        on_error=OnError(0.001),
        output=Output(shuffle_seed=7),
    )


def test_smallest_recipe_has_defaults() -> None:
    """A name and one source are enough; the source is the base."""
    assert parse("name: a\nsources: {clicks: clicks.csv}") == Recipe(
        name="a", sources={"clicks": Source("clicks", ("clicks.csv",))}, base="clicks"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("b.tsv", Source("a", ("b.tsv",))),
        ("[b.csv, c.csv]", Source("a", ("b.csv", "c.csv"))),
        (r'{path: b, format: csv, delimiter: "\t", quote: ""}', made_source("a", ("b",), format="csv", delimiter="\t", quote="")),
        ('{path: b, quote: "\'"}', made_source("a", ("b",), quote="'")),
        ("{path: b, header: false, columns: [no, on, 1]}", made_source("a", ("b",), header=False, columns=("no", "on", "1"))),
        ("{path: b, nulls: []}", Source("a", ("b",), nulls=())),
        ('{path: b, nulls: ""}', Source("a", ("b",), nulls=("",))),
        ("{path: b, types: {on: int8, y: list<text>}}", Source("a", ("b",), types={"on": "int8", "y": "list<text>"})),
        ("{path: b, key: [x, y], infer: full}", Source("a", ("b",), key=("x", "y"), infer="full")),
        ("{path: b, compression: zstd, schema: s.pbtxt}", made_source("a", ("b",), compression="zstd", schema="s.pbtxt")),
    ],
)  # fmt: skip
def test_sources(text: str, expected: Source) -> None:
    """Each way to write a source becomes the source it means."""
    assert parse(with_source(text)).sources["a"] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{train: 1}", Split({"train": 1.0})),
        ("{train: 80%, eval: 20%, stratify: [label, day], by: user, seed: 3}",
         Split({"train": 0.8, "eval": 0.2}, ("user",), ("label", "day"), seed=3)),
        ("{folds: 4}", Split({f"fold_{number}": 0.25 for number in range(4)}, folds=4)),
        ("{test: 0.1, folds: 3, stratify: label}", Split({"test": 0.1} | {f"fold_{n}": 0.3 for n in range(3)}, (), ("label",), 3)),
        ("{train: 80%, eval: 20%}", Split({"train": 0.8, "eval": 0.2})),
        ("{train: 0.7, eval: 0.2, test: 0.1, by: user}", Split({"train": 0.7, "eval": 0.2, "test": 0.1}, by=("user",))),
        ("{column: date, train: {before: 2013-11-01}, eval: {after: 2013-11-01}}",
         Split({}, time_column="date", times=(TimeSplit("train", None, "2013-11-01"), TimeSplit("eval", "2013-11-01", None)))),
        ("{column: at, train: {before: 2013-11-01T02:00:00+02:00}, eval: {after: '2013-11-01 00:00:00', before: 2014-01-01}}",
         Split({}, time_column="at", times=(TimeSplit("train", None, "2013-11-01T02:00:00+02:00"), TimeSplit("eval", "2013-11-01 00:00:00", "2014-01-01")))),
        ("{column: day, train: {before: 20131101}, eval: {after: 20131101}}",
         Split({}, time_column="day", times=(TimeSplit("train", None, "20131101"), TimeSplit("eval", "20131101", None)))),
        ('{train: {files: "*2012*"}, eval: {files: "*2013*"}}', Split({}, files={"train": "*2012*", "eval": "*2013*"})),
    ],
)  # fmt: skip
def test_splits(text: str, expected: Split) -> None:
    """Each kind of split becomes the value it means."""
    split = parse(with_split(text)).split
    assert split == expected
    assert split.names == expected.names


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("128 MiB", 128 * MIB),
        ("1KiB", 1024),
        ("100 MB", 100_000_000),
        ("1.5 gib", 3 << 29),
        ("4096", 4096),
        ("2kb", 2000),
    ],
)
def test_shard_sizes(text: str, size: int) -> None:
    """Sizes are read with decimal and binary units.

    Without a unit they are bytes.
    """
    assert parse(with_output(f"{{shard_size: {text}}}")).output.shard_size == size


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["recipe.yaml: found an empty file, expected a recipe with 'name' and 'sources'."]),
        ("- a", ["recipe.yaml:1: found a list, expected a mapping with 'name', 'sources' and 'output'."]),
        ("name: [", ["recipe.yaml:1: not valid YAML: while parsing a flow node expected the node content, but found '<stream end>'."]),
        ("a: 1\n\tb: 2",
         ["recipe.yaml:2: not valid YAML: while scanning for the next token found character '\\t' that cannot start any token."]),
        ("name: a\nname: b\nsources: {a: a.csv}", ["recipe.yaml:1: name: found this key on line 1 and again on line 2, expected it once."]),
        ("name: a\nsources: {a: !!python/object/apply:os.system [ls]}",
         ["recipe.yaml:2: sources.a: found the YAML tag 'tag:yaml.org,2002:python/object/apply:os.system', expected a plain value. Leave out the tag."]),
    ],
)  # fmt: skip
def test_broken_files(text: str, expected: list[str]) -> None:
    """A file without a recipe is refused with its line."""
    found = problems(text)
    assert found[: len(expected)] == expected


def test_all_problems_at_once() -> None:
    """All problems of a recipe are listed by line."""
    text = """\
    name: my flights
    sources:
      flights: {path: flights.csv, delimeter: ";"}
      planes: {format: cvs, header: 1}
    form: flights
    join:
      - source: plane
        on: {}
        how: outer
        prefix: p_
    drop: [a, a]
    keep: b
    encode:
      x: {vocab: 10}
    split: {train: 0.8, eval: 0.1}
    on_error: {reject: 100%}
    output: {level: 10, num_shards: 0, shard_size: 5 bytes}
    """
    formats = " or ".join(", ".join(FORMATS).rsplit(", ", 1))
    assert problems(text) == [
        (
            "recipe.yaml:1: name: found 'my flights', expected letters, digits, '_', '.' and '-', "
            "beginning with a letter or a digit."
        ),
        (
            "recipe.yaml:3: sources.flights.delimeter: found an unknown key 'delimeter'. Did "
            "you mean 'delimiter'?"
        ),
        (
            "recipe.yaml:4: sources.planes: found no 'path', expected one, for example 'path: "
            "data/planes.csv'."
        ),
        (
            f"recipe.yaml:4: sources.planes.format: found 'cvs', expected {formats}. Did you mean "
            "'csv'?"
        ),
        "recipe.yaml:4: sources.planes.header: found '1', expected true or false.",
        "recipe.yaml:5: form: found an unknown key 'form'. Did you mean 'from'?",
        (
            "recipe.yaml:7: join[0].source: found 'plane', expected flights or planes. Did "
            "you mean 'planes'?"
        ),
        (
            "recipe.yaml:8: join[0].on: found an empty mapping, expected a mapping, one "
            "'column: …' a line."
        ),
        "recipe.yaml:9: join[0].how: found 'outer', expected left, inner, semi or anti.",
        "recipe.yaml:11: drop: found 'a' more than once, expected it once.",
        (
            "recipe.yaml:12: keep: found both 'drop' and 'keep', expected one of them: "
            "'keep' leaves out all others."
        ),
        (
            "recipe.yaml:14: encode.x.vocab: found 'vocab', expected cast, vocabulary, "
            "bucketize, fill or z_score. Did you mean 'vocabulary'?"
        ),
        "recipe.yaml:15: split: found shares that add up to 0.9, expected 1.",
        (
            "recipe.yaml:16: on_error.reject: found '100%', expected a share below 1, as 0.001 or "
            "0.1%, or a whole number of rows, as 100."
        ),
        (
            "recipe.yaml:17: output.shard_size: found '5 bytes', expected at least 1 KiB, as '128 "
            "MiB', '100 MB' or a number of bytes."
        ),
        "recipe.yaml:17: output.num_shards: found '0', expected a whole number from 1 to 1000000.",
        "recipe.yaml:17: output.level: found '10', expected a whole number from 0 to 9.",
        "recipe.yaml:17: output: found both 'num_shards' and 'shard_size', expected one of them.",
    ]


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        (with_output("{compression: zlib, level: 10}"), "3: output.level", "from 0 to 9"),
        (with_output("{compression: none, level: 1}"), "3: output.level", "'compression: none'"),
        (with_output("{compression: gz}"), "3: output.compression", "found 'gz', expected gzip, zlib or none"),
        (with_output("{num_shards: true}"), "3: output.num_shards", "whole number"),
        (with_output("{num_shards: 10, shards_multiple_of: 4}"), "3: output", "a multiple of it"),
        (with_output("{shuffle: yes}"), "3: output.shuffle", "found 'yes', expected true or false"),
        (with_output("8"), "3: output", "a mapping"),
        (with_split("{}"), "3: split", "no splits"),
        (UNION + "{union: [a]}}\nfrom: a", "2: sources.u.union", "one source, expected several"),
        (UNION + "{union: [a, c]}}\nfrom: a", "2: sources.u.union", "found 'c', expected sources"),
        (UNION + "{union: [a, u]}}\nfrom: a", "2: sources.u.union", "found 'u', expected sources"),
        (UNION + "{union: [a, b], path: x}}\nfrom: a", "2: sources.u.path", "unknown key 'path'"),
        (UNION + "{union: [a, b], missing: drop}}\nfrom: a", "2: sources.u.missing", "error or fill"),
        (SOURCE + "sample: {rates: {0: 0}}", "3: sample.rates.0", "above 0"),
        (SOURCE + "sample: {rates: {0: -1}}", "3: sample.rates.0", "above 0"),
        (SOURCE + "sample: {rates: {0: 1001}}", "3: sample.rates.0", "1,000"),
        (SOURCE + "sample: {rates: {}}", "3: sample.rates", "class: rate"),
        (SOURCE + "sample: {by: a}", "3: sample", "found no 'rates'"),
        (with_split("{stratify: label}"), "3: split", "no splits"),
        (with_split("{folds: 1}"), "3: split.folds", "from 2 to 100"),
        (with_split("{test: 0.6, dev: 0.4, folds: 3}"), "3: split.folds", "leave no rows"),
        (with_split("{fold_1: 0.6, folds: 3}"), "3: split.fold_1", "of this name"),
        (with_split("{train: {files: a}, folds: 3}"), "3: split.folds", "shares only"),
        (with_split("{train: {files: a}, stratify: b}"), "3: split.stratify", "shares only"),
        (with_split("{train: 1.5}"), "3: split.train", "at most 1"),
        (with_split("{train: nan}"), "3: split.train", "found 'nan'"),
        (with_split("{train: 1, by: []}"), "3: split.by", "at least one"),
        (with_split("{tr/ain: 1}"), "3: split.tr/ain", "TFX"),
        (with_split("{train: 0.5, eval: {before: 2013-01-01}}"), "3: split", "several kinds"),
        (with_split("{train: {before: 2013-01-01}}"), "3: split", "bounds without 'column'"),
        (with_split("{train: {values: a}}"), "3: split", "values without 'column'"),
        (with_split("{column: a, train: {values: a, after: 3}}"), "3: split.train", "no rule or two"),
        (with_split("{column: a, train: {values: a}, b: {after: 3}}"), "3: split", "several kinds"),
        (with_split("{column: a, train: 1}"), "3: split.column", "'column' without"),
        (with_split("{column: a, by: b, train: {before: 3}}"), "3: split.by", "shares only"),
        (with_split("{train: {files: a, pattern: b}}"), "3: split.train.pattern", "unknown key"),
        (with_split("{train: 0.8, eval: 0.2, sede: 3}"), "3: split.sede", "Did you mean 'seed'?"),
        (OUTPUT + "{shard_name: a/b}", "3: output.shard_name", "letters, digits"),
        (OUTPUT + "{shard_name: '{span}'}", "3: output.shard_name", "expected {date}"),
        (OUTPUT + "{shard_name: '{name}'}", "3: output.shard_name", "placeholders"),
        (OUTPUT + "{shard_name: d.tfrecord.gz}", "3: output.shard_name", "without a suffix"),
        (with_source("{path: []}"), "3: sources.a.path", "at least one"),
        (with_source("{path: b, delimiter: ab}"), "3: sources.a.delimiter", "one character"),
        (with_source(r"{path: b, delimiter: \t}"), "3: sources.a.delimiter", "in double quotes"),
        (with_source("{path: b, delimiter: '||'}"), "3: sources.a.delimiter", "'format: lines'"),
        (with_source("{path: b, types: {x: integer}}"), "3: sources.a.types.x", "unknown type 'integer'"),
        (with_source("{path: b, infer: all}"), "3: sources.a.infer", "sample, full or lenient"),
        (with_source(""), "3: sources.a", "found nothing"),
        ("name: a\nsources: {}\n", "2: sources", "an empty mapping"),
        ("name: a\nsources: {a: a, b: b}\nfrom: c\n", "3: from", "expected a or b"),
        ("name: a\nsources: {a b: a}\n", "2: sources.a b", "the name 'a b'"),
        ("name: a\nsources: {a: a}\nfilter:\n", "3: filter", "found nothing, expected a text"),
        ("name: a\nsources: {a: a}\nderive: [b]\n", "3: derive", "a mapping"),
        ("name: a\nsources: {a: a}\nencode: {x: [cast, {a: 1, b: 2}]}\n", "3: encode.x[1]", "found 2 kinds in one mapping"),
        ("name: a\nsources: {a: a}\nencode: {x: {}}\n", "3: encode.x", "found 0 kinds"),
        ("name: a\nsources: {a: a}\nencode: {x: {fill: {wrong: 1}}}\n", "3: encode.x.fill", "found 'wrong'."),
        ("name: a\nsources: {a: a}\nencode: {x: []}\n", "3: encode.x", "at least one encoding"),
        ("name: a\nsources: {a: a, b: b}\nfrom: a\njoin: {source: b}\n", "4: join", "found keys, expected a list"),
        ("name: a\nsources: {a: a, b: b}\nfrom: a\njoin:\n- source: b\n", "5: join[0]", "found no 'on'"),
        ("name: a\nsources: {a: a, b: b}\nfrom: a\njoin:\n- {source: b, on: x}\n- {source: b, on: y}\n", "6: join[1]", "joined again"),
        ("name: a\nsources: {a: a}\n[b]: c\n", "1", "no text"),
        ("name: a\nsources: {a: a}\nlabel: !!int b\n", "3: label", "its tag"),
    ],
)  # fmt: skip
def test_each_problem(text: str, place: str, message: str) -> None:
    """Each mistake is reported at its line and path.

    The error says what was expected.
    """
    found = problems(text)
    assert any(line.startswith(f"recipe.yaml:{place}: ") and message in line for line in found), (
        found
    )


@pytest.mark.parametrize(
    "text",
    [
        with_split("{column: a, train: {before: 2013-01-01}, eval: {after: 2013-01-01}}"),
        with_split("{column: a, train: {values: [b]}, eval: {values: [c]}}"),
        with_split("{train: {files: a}, eval: {files: b}}"),
        with_source("{path: b, format: csv, formats: {}}"),
        "name: a\nsources: {a: a, b: b}\nfrom: a\n",
    ],
)
def test_a_misspelled_key_is_named(text: str) -> None:
    """The only problem of its section, with the key that is meant."""
    for key in re.findall(r"\b(?!train|eval|column)[a-z]{4,}(?=:)", text):
        for typo in {f"{key}es", key[:-2] + key[:-3:-1], f"{key[:2]}{key[1:]}"} - {key}:
            found = problems(text.replace(f"{key}:", f"{typo}:", 1))
            assert any(f"'{typo}'. Did you mean '{key}'?" in line for line in found), found
            assert not any(f"no '{key}'" in line or "kinds" in line for line in found), found


def test_joined_twice_with_prefixes() -> None:
    """A source may be joined twice when the prefixes differ."""
    text = (
        "name: a\nsources: {a: a, b: b}\nfrom: a\njoin:\n- {source: b, on: x, prefix: p}\n- "
        "{source: b, on: {y: x}}\n"
    )
    assert parse(text).join == (Join("b", (("x", "x"),), prefix="p"), Join("b", (("y", "x"),)))


@pytest.mark.parametrize(
    "text",
    [
        "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
        + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)),
        "a: &a [*a]",
        "a: " + "[" * 10_000,
        "a: " + "[" * 60 + "]" * 60,
        "name: " + "x" * (5 << 20),
    ],
    ids=["alias bomb", "alias of itself", "open brackets", "deep", "large"],
)
def test_hostile_yaml(text: str) -> None:
    """Files made to eat memory or the stack are refused at once."""
    assert "expected" in problems(text)[0] or "than" in problems(text)[0]


@pytest.mark.parametrize("name", ["utf-8", "utf-16", "utf-16-le", "utf-32", "cp1252", "latin-1"])
def test_encodings_of_text(name: str) -> None:
    """Codecs of text are encodings, also those that begin with a mark."""
    recipe = parse(f"name: a\nsources: {{a: {{path: a.csv, encoding: {name}}}}}\nfrom: a\n")
    assert recipe.sources["a"].options == {"encoding": name}


def test_later_problems_find_their_lines() -> None:
    """A problem of planning has the line of its path.

    It is the line of the longest known part of the path.
    """
    recipe = recipes.parse_recipe(FLIGHTS, "recipe.yaml", encodings=ENCODINGS)
    error = lines.explain(
        [
            Problem(("join", 1, "on", 0), "found no column 'origin'."),
            Problem(("sources", "planes", "types", "x"), "found no column 'x'."),
            Problem((), "found nothing."),
            Problem((), "found nothing."),
        ],
        recipe.lines,
    )
    assert str(error).split("\n") == [
        "recipe.yaml:1: found nothing.",
        "recipe.yaml:4: sources.planes.types.x: found no column 'x'.",
        "recipe.yaml:9: join[1].on[0]: found no column 'origin'.",
    ]
    assert (
        str(lines.explain([Problem(("label",), "bad.")], lines.Lines("a.csv")))
        == "a.csv: label: bad."
    )


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("clicks.csv", "clicks"),
        ("data/my clicks.csv.gz", "my_clicks"),
        ("gs://bucket/clicks/*.parquet", "clicks"),
        ("*.csv", "dataset"),
        ("data/part-*.csv", "part"),
        ("Split-train/data_tfrecord-00000-of-00001.gz", "data_tfrecord"),
        ("data_tfrecord-*-of-?????.gz", "data_tfrecord"),
        ("mnist-train.tfrecord-00000-of-00001", "mnist-train"),
        ("clicks-00003-of-00012.csv", "clicks"),
        ("day-2-of-3.csv", "day-2-of-3"),
    ],
)
def test_bare_recipe(path: str, name: str) -> None:
    """A data file alone makes a recipe with its name.

    The recipe keeps every row in one split.
    """
    bare = reader.bare_recipe(path, FORMATS)
    assert bare == Recipe(name=name, sources={name: Source(name, (path,))}, base=name)
    assert bare.split.fractions == {"train": 1.0}


def test_load_recipe(tmp_path: pathlib.Path) -> None:
    """A recipe file's folder is its directory.

    The file may have a byte order mark.
    """
    path = tmp_path / "recipe.yaml"
    path.write_bytes(b"\xef\xbb\xbfname: a\nsources: {a: a.csv}\n")
    loaded = recipes.load(str(path))
    assert (loaded.name, loaded.directory.rstrip("/"), loaded.lines.origin) == (
        "a",
        str(tmp_path),
        str(path),
    )
    path.write_bytes(b"name: \xff")
    with pytest.raises(RecipeError, match="not UTF-8"):
        recipes.load(str(path))
    with pytest.raises(RecipeError, match="there is no such file"):
        recipes.load(str(tmp_path / "missing.yml"))
    assert recipes.load("clicks.csv").sources["clicks"].path == ("clicks.csv",)


@given(st.text(max_size=200) | st.lists(st.sampled_from(FLIGHTS.split("\n"))).map("\n".join))
def test_any_text_is_a_recipe_or_an_error(text: str) -> None:
    """Reading any file ends in a recipe or in a RecipeError.

    There is never another exception.
    """
    with contextlib.suppress(RecipeError):
        assert isinstance(recipes.parse_recipe(text, "r.yaml", encodings=ENCODINGS), Recipe)


SECTIONS = {
    "Top level": Recipe,
    "Sources": Source,
    "under `image`": ImageOptions,
    "under `libsvm`": Libsvm,
    "under `idx`": IdxOptions,
    "## Unions": Union,
    "Join": Join,
    "### Joins by time": AsOf,
    "### Windows": Window,
    "Sequence": Sequences,
    "Fit": Fit,
    "Split": Split,
    "Sample": Sample,
    "Statistics": Statistics,
    "Bad rows": OnError,
    "Expectations": Expectation,
    "Duplicates": Duplicates,
    "Leaks": Leaks,
    "Personal data": Pii,
    "Limits": Limits,
    "Output": Output,
}


@pytest.mark.parametrize("place", SECTIONS)
def test_documented(place: str) -> None:
    """The tables of the pages have the declared keys and defaults."""
    page = "\n".join((DOCS / name).read_text() for name in ("recipe.md", "steps.md", "checks.md"))
    start = page.index(place if place.startswith(("under", "##")) else f"\n## {place}\n")
    table = page[page.index("\n| Key |", start) :].split("\n\n")[0]
    rows = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:4]]
        for line in table.strip().split("\n")[2:]
    ]
    documented = {row[0].strip("`"): row[2] for row in rows}
    declared = {key.name: key.default for key in keys_of(SECTIONS[place]).values()}
    for option in FORMATS.option_names if place == "Sources" else ():
        declared[option] = keys_of(FORMATS.declaring(option))[option].default
    if place == "Top level":
        declared |= dict.fromkeys(plugins.known(plugins.CHECKS), "not looked for")
        declared["expect"] = "none"
    if place == "Split":
        own = {key.name: key.default for key in keys_of(TimeSplit).values()}
        declared |= {"train`, `eval`, …": "`{train: 1}`", "files": "none"}
        declared |= {"before`, `after": own["before"], "values": own["values"]}
    assert documented == declared


@pytest.mark.parametrize("kind", SECTIONS.values())
def test_shown_defaults_are_the_defaults(kind: type) -> None:
    """A default value is shown in the form of a recipe."""
    for field in dataclasses.fields(kind):
        key = keys_of(kind).get(field.name)
        if key is not None and isinstance(field.default, bool | int | str) and field.default:
            tree, _, _ = parse_yaml(key.default.strip("`").replace(",", ""), "")
            assert key.read(Value(tree, (), [])) == field.default, field.name


def test_normalised_defaults_are_stable() -> None:
    """Two ways to write the same recipe have the same hash."""
    short = parse("name: a\nsources: {a: a.csv}")
    long = parse(
        "name: a\nfrom: a\nsources: {a: {path: [a.csv], infer: sample}}\nsplit: {train: 1}\noutput: "
        "{level: 1}"
    )
    assert recipe_hash(short) == recipe_hash(long)
