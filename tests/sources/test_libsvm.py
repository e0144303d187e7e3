"""libsvm and libfm text, against a plain parser, up to SparseTensors."""

from __future__ import annotations

import gzip
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

import beam_pipelines as bp
from beam_pipelines.analysis.schema import read_schema
from beam_pipelines.cli.main import run
from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.dataset import loader
from beam_pipelines.dataset.inspect import inspect_examples
from beam_pipelines.dataset.verify import verify_dataset
from beam_pipelines.pipeline import convert as convert_module
from beam_pipelines.pipeline.planning.recipes import load
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.sources.libsvm.format import Libsvm
from beam_pipelines.transforms import read
from tests.sources.support import plan_of, problems_of, read_rows, types_of, write
from tests.support.runs import convert_in, plan_in

LARGEST = 2**63 - 1


def plain_row(line: str, base: int, size: int | None, sort: bool = False) -> dict[str, Any] | None:
    """Parses one line with Python alone.

    Returns ``None`` for a line without a row.

    Raises:
      ValueError: the line is bad.
    """
    words = line.partition("#")[0].split()
    if not words:
        return None
    row: dict[str, Any] = {"label": plain_number(words[0]), "qid": None, "keys": [], "values": []}
    if words[1:2] and words[1].startswith("qid:"):
        row["qid"] = plain_integer(words.pop(1)[4:].removeprefix("+"))
    for word in words[1:]:
        *keys, value = word.split(":")
        if len(keys) != 1:
            raise ValueError(word)
        numbers = [plain_integer(key) for key in keys]
        numbers[-1] -= base
        if (
            min(numbers) < 0
            or max(numbers) == LARGEST
            or (size is not None and numbers[-1] >= size)
        ):
            raise ValueError(word)
        if numbers in row["keys"] or (row["keys"] and not sort and numbers < row["keys"][-1]):
            raise ValueError(word)
        row["keys"].append(numbers)
        row["values"].append(float(np.float32(plain_number(value))))
        if math.isinf(row["values"][-1]):
            raise ValueError(word)
    pairs = sorted(zip(row["keys"], row["values"], strict=True))
    return row | {"keys": [key for key, _ in pairs], "values": [value for _, value in pairs]}


def plain_integer(text: str) -> int:
    if not re.fullmatch(r"-?[0-9]+", text) or not -LARGEST - 1 <= int(text) <= LARGEST:
        raise ValueError(text)
    return int(text)


def plain_number(text: str) -> float:
    if set(text) - set("0123456789+-.eE") or math.isinf(float(text)):
        raise ValueError(text)
    return float(text)


def read_all(
    path: str, libsvm: Libsvm, format_: str, range_bytes: int | None = None
) -> tuple[Any, list[Any], set[int]]:
    """Reads a file: its rows as ``plain_row`` returns them, and rejected lines."""
    plan = plan_of(
        path,
        range_bytes=range_bytes,
        format=format_,
        libsvm=libsvm,
        types={"qid": "int64", "label": "float64"},
    )
    table, counts, rejected = read.read_table(plan, reject=True)
    assert counts == {"read": table.num_rows, "rejected": len(rejected)}
    rows = []
    for row in table.to_pylist():
        places = [[index] for index in row["features_index"]]
        rows.append(
            {
                "label": row["label"],
                "qid": row["qid"],
                "keys": places,
                "values": row["features_value"],
            }
        )
    return (
        rows,
        rejected,
        {int(bad.position.removeprefix("line ").replace(",", "")) for bad in rejected},
    )


NUMBERS = st.one_of(
    st.integers(-20, 20).map(str),
    st.floats(-100, 100, width=16).map(repr),
    st.sampled_from(["+3", "-.5", "1.", "1e3", "2E-2", "1e-50", "3.4e38", "0", "-0.0"]),
)
ODD = st.sampled_from(
    ["nan", "inf", "1e39", "-1e400", "0x1F", "1e", ".", "", "+", "--1", "++1", "1_0", "é", "a", "9" * 20, "1:2", ":", "1 2"]
)  # fmt: skip
INDICES = st.one_of(
    st.integers(0, 12).map(str),
    st.sampled_from(["-1", "+1", "01", "x1", "0x1", "", "9" * 19, "1.0", str(LARGEST)]),
)


@st.composite
def tokens(draw: st.DrawFn) -> str:
    index = draw(INDICES if draw(st.integers(0, 9)) == 0 else st.integers(0, 12).map(str))
    return ":".join([index, draw(ODD if draw(st.integers(0, 9)) == 0 else NUMBERS)])


@st.composite
def lines(draw: st.DrawFn) -> str:
    """A mostly good line: tokens in ascending order, most of them whole."""
    kind = draw(st.integers(0, 11))
    comment = draw(st.sampled_from(["", "", "", "# c", " #1:2 # é", "#"]))
    blanks = draw(st.sampled_from(["", "", " ", "\t", " \t \v"]))
    if kind == 0:
        return blanks + comment
    if kind == 1:
        return draw(st.text("0123:.-+e# \tqidx", max_size=14))
    found = draw(st.lists(tokens(), max_size=5))
    if kind < 9:
        keys = [token.split(":")[:-1] for token in found if re.fullmatch("[0-9:]+:[^:]*", token)]
        places = sorted({tuple(map(int, key)) for key in keys if all(key)})
        if draw(st.booleans()):
            places = draw(st.permutations(places))
        found = [":".join(map(str, place)) for place in places]
        found = [f"{place}:{draw(NUMBERS)}" for place in found]
    label = draw(ODD if kind == 10 else NUMBERS)
    query = draw(st.sampled_from(["", "", "qid:5", "qid:-2", "qid:x" if kind == 9 else "qid:+7"]))
    words = [label, *([query] if query else []), *found]
    return (
        draw(st.sampled_from(["", " "]))
        + draw(st.sampled_from([" ", "  ", "\t", "\f"])).join(words)
        + blanks
        + comment
    )


@pytest.mark.end_to_end
@given(data=st.data(), base=st.integers(0, 1), sort=st.booleans(), size=st.sampled_from([None, 9]))
def test_parser_does_what_a_plain_one_does(tmp_path_factory, data, base, sort, size):
    """Values and rejected lines are those of the plain parser.

    Line ends and ranges are of all kinds.
    """
    found = data.draw(st.lists(lines(), min_size=1, max_size=12))
    found.append("1")  # so that there is a row
    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    expected, bad = [], set()
    for number, line in enumerate(found, start=1):
        try:
            row = plain_row(line, base, size, sort)
        except ValueError:
            bad.add(number)
            continue
        expected += [] if row is None else [row]
    path = write(
        tmp_path_factory.mktemp("libsvm") / "a.txt",
        end.join(found) + data.draw(st.sampled_from(["", end])),
    )
    range_bytes = data.draw(st.integers(8, 80))
    rows, rejected, wrong = read_all(
        path, Libsvm(base=base, size=size, sort=sort), "libsvm", range_bytes
    )
    assert wrong == bad
    assert rows == expected
    assert not [row.reason for row in rejected if "cannot be read" in row.reason]


def test_lines_without_rows_and_rows_without_features(tmp_path: Path) -> None:
    """Comments, blank lines, tabs, trailing blanks and CRLF make no difference.

    A label alone is a row without values.
    """
    text = "# head\r\n\r\n+1 1:0.5\t3:-2e-1 \r\n \t\r\n-1\r\n0 2:+7 # 9:9\r\n"
    path = write(tmp_path / "a.libsvm", text)
    expected = [
        {"label": 1, "features_index": [0, 2], "features_value": [0.5, float(np.float32(-0.2))]},
        {"label": -1, "features_index": [], "features_value": []},
        {"label": 0, "features_index": [1], "features_value": [7.0]},
    ]
    assert read_rows(path) == expected
    compressed = write(tmp_path / "a.libsvm.gz", gzip.compress(text.encode()))
    assert read_rows(compressed) == expected
    assert read_rows(path, columns=("label",)) == [{"label": row["label"]} for row in expected]


def test_columns_and_types_follow_from_the_sample(tmp_path: Path) -> None:
    """Columns and types follow from the sample.

    Labels are integers unless one has a fraction; queries make a column. Names may be chosen.
    """
    lists = {"features_index": "list<item: int64>", "features_value": "list<item: float>"}
    whole = write(tmp_path / "a.svm", "+1 1:2\n-3 2:3\nx 1:2\n")
    assert types_of(whole) == {"label": "int64"} | lists
    fractions = write(tmp_path / "a.libfm", "1 0:2\n0.5 2:3\n")
    assert types_of(fractions) == {"label": "double"} | lists
    assert types_of(fractions, types={"label": "float32"}) == {"label": "float"} | lists
    assert types_of(fractions, libsvm=Libsvm(name="x"))["x_index"] == "list<item: int64>"
    ranked = write(tmp_path / "b.svm", "1 qid:7 1:2\n2\n")
    assert read_rows(ranked) == [
        {"label": 1, "qid": 7, "features_index": [0], "features_value": [2.0]},
        {"label": 2, "qid": None, "features_index": [], "features_value": []},
    ]


@pytest.mark.parametrize(
    ("line", "column", "reason"),
    [
        ("1 0:1", "features_index", "found '0:1', expected an index from 1 to 9. Mend the line, or set 'libsvm: {base: 0}'"),
        ("1 10:1", "features_index", "found '10:1', expected an index from 1 to 9. Mend the line, or set a larger 'size'"),
        ("1 -3:1", "features_index", "found '-3:1', expected an index from 1 to 9. Mend the line"),
        ("1 3:1 2:1", "features_index", "found '2:1', expected indices each once, in ascending order. Mend the line, or set 'libsvm: {sort: true}'"),
        ("1 3:1 3:1", "features_index", "found '3:1', expected indices each once, in ascending order."),
        ("1 3", "", "found '3', expected index:value"),
        ("1 1:2:3", "", "found '1:2:3', expected index:value. Of libffm, take off the fields: sed -E 's/[0-9]+:([0-9]+:)/\\1/g'."),
        ("1 a:3", "features_index", "found 'a:3', expected an index from 1 to 9. Mend the line"),
        ("1 0x2:3", "features_index", "found '0x2:3'"),
        ("1 3:nan", "features_value", "found '3:nan', expected index:value with a finite number"),
        ("1 3:1e39", "features_value", "found '3:1e39'"),
        ("3:1", "label", "found '3:1', expected an integer from -9223372036854775808 to 9223372036854775807. Mend the line: one label"),
        ("1,2 3:1", "label", "found '1,2', expected an integer from -9223372036854775808 to 9223372036854775807. Mend the line: one label"),
        ("0.5 3:1", "label", "found '0.5', expected an integer from -9223372036854775808 to 9223372036854775807. Declare"),
        ("yes 3:1", "label", "found 'yes', expected an integer"),
        ("1 qid:2 3:1", "qid", "found 'qid:2', expected none: no row of the sample has one"),
    ],
)  # fmt: skip
def test_bad_line_is_explained(tmp_path, monkeypatch, line, column, reason):
    """A bad line ends the run with its place, finding and cure.

    Rejected, it has the same words.
    """
    good = "1 1:1\n"
    monkeypatch.setattr("beam_pipelines.sources.text.blocks.SAMPLE_BYTES", len(good))
    path = write(tmp_path / "a.libsvm", f"{good}# {line}\n{line} # why\n{good}")
    plan = plan_of(path, libsvm=Libsvm(size=9))
    with pytest.raises(
        DataError, match=rf"a\.libsvm, line 3(, column '{column}')?: {re.escape(reason)}"
    ):
        read.read_table(plan, reject=False)
    table, _, (rejected,) = read.read_table(plan, reject=True)
    assert table.num_rows == 2
    assert (rejected.position, rejected.column, rejected.text) == (
        "line 3",
        column,
        f"{line} # why",
    )


@pytest.mark.parametrize(
    ("text", "format_"),
    [
        ("# comment\n\n+1 3:1 11:-1e-2 # x\n", "libsvm"),
        ("0.5 qid:3 1:.5\n", "libsvm"),
        (f"1 {' '.join(f'{index}:0.123456' for index in range(1, 9000))}\n", "libsvm"),
        ("time\n17 10:30\n", None),
        ("1 3:1x\n", None),
        ("1 3\n", None),
    ],
)
def test_sparse_text_with_the_suffix_of_csv(tmp_path: Path, text: str, format_: str | None) -> None:
    """Sparse text with the suffix of CSV is refused.

    The problem names the format to set.
    """
    path = write(tmp_path / "d.txt", f"{text}1 2:3\n")
    if format_ is None:
        assert read_rows(path)
        return
    (message,) = problems_of(path).values()
    assert message.startswith("found ")
    assert f"expected a header of CSV. Set 'format': {format_}" in message
    assert plan_of(path, format="csv").format == "csv"
    assert read_rows(write(tmp_path / "e.txt", text), format=format_)


@pytest.mark.parametrize(
    ("format_", "line", "column", "token", "cure"),
    [
        ("libfm", f"1 {LARGEST}:1", "features_index", f"{LARGEST}:1", "an index from 0 to"),
        ("libsvm", f"1 {LARGEST + 1}:1", "features_index", f"{LARGEST + 1}:1", "an index from 1 to"),
        ("libfm", f"1 {'9' * 30}:1", "features_index", f"{'9' * 30}:1", "an index from 0 to"),
    ],
)  # fmt: skip
def test_an_index_beyond_a_sparse_tensor_is_a_bad_row(tmp_path, format_, line, column, token, cure):
    """Its size, the largest index plus 1, would be no int64."""
    path = write(tmp_path / "a", f"1\n{line}\n")
    most = LARGEST if format_ == "libsvm" else LARGEST - 1
    message = f"line 2, column '{column}': found '{token}', expected {cure} {most}. Mend the line."
    with pytest.raises(DataError, match=re.escape(message)):
        read_rows(path, format=format_)


@pytest.mark.parametrize(("format_", "base"), [("libsvm", 1), ("libfm", 0)])
def test_the_largest_index_loads(tmp_path: Path, format_: str, base: int) -> None:
    """One below the largest int64 is the last index of a tf.SparseTensor."""
    write(tmp_path / f"rows.{format_}", f"1 {LARGEST - 1 + base}:0.5\n")
    recipe = RECIPE.format(format=format_, options="", more="").replace("split:", "# split:")
    convert(tmp_path, recipe)
    ((features, _),) = loader.load(tmp_path / "out", shuffle=False)
    assert features["features"].dense_shape.numpy().tolist() == [1, LARGEST]
    assert dense(features["features"]) == {(0, LARGEST - 1): 0.5}


def test_options_that_do_not_fit_are_problems(tmp_path: Path) -> None:
    """Options of other formats, and impossible types, are found at planning."""
    path = write(tmp_path / "a.libsvm", "1 1:1\n")
    found = problems_of(path, delimiter=",", types={"features_index": "text"})
    assert set(found) == {("sources", "s", key) for key in ("delimiter", "types")}
    table = write(tmp_path / "a.csv", "a\n1\n")
    (message,) = problems_of(table, libsvm=Libsvm(size=3)).values()
    assert message == "found it with format 'csv', expected it with libsvm, libfm only."
    empty = write(tmp_path / "b.libsvm", "# nothing\n\n")
    with pytest.raises(DataError, match="found no rows"):
        plan_of(empty)


ROWS = [
    (number % 2, {(number * 7 + step * 5) % 40: (step + 1) / 4 for step in range(number % 4)})
    for number in range(60)
]


def as_libsvm(rows: list[tuple[int, dict[int, float]]], base: int = 1) -> str:
    return "".join(
        f"{label} {' '.join(f'{index + base}:{value}' for index, value in sorted(values.items()))}\n"
        for label, values in rows
    )


def convert(folder: Path, recipe: str) -> Any:
    convert_in(folder, recipe, overwrite=True)
    return bp.open(folder / "out")


def dense(tensor: tf.SparseTensor) -> dict[tuple[int, ...], float]:
    """Returns each row's values by index, as a set of rows."""
    return dict(
        zip(
            map(tuple, tensor.indices.numpy().tolist()), tensor.values.numpy().tolist(), strict=True
        )
    )


RECIPE = """
name: svm
sources: {{rows: {{path: rows.{format}{options}}}}}
label: label
split: {{train: 0.7, eval: 0.3}}
{more}
output: {{shuffle: false}}
"""


@pytest.mark.parametrize(("size", "expected"), [(None, 40), (1000, 1000)])
def test_dataset_loads_as_sparse_tensors(tmp_path: Path, size: int | None, expected: int) -> None:
    """Every value is at its place in a SparseTensor.

    Its size is the declared one, or the largest index of all splits plus one.
    """
    rows = [*ROWS, (1, {39: 1.0})]
    write(tmp_path / "rows.libsvm", as_libsvm(rows))
    options = f", libsvm: {{size: {size}}}" if size else ""
    dataset = convert(tmp_path, RECIPE.format(format="libsvm", options=options, more=""))
    spec = dataset.feature_spec()
    assert spec["features"] == tf.io.SparseFeature(
        ["features_index"], "features_value", tf.float32, [expected], already_sorted=True
    )
    assert set(spec) == {"features", "label"}
    loaded = []
    for split in dataset.splits:
        for features, labels in loader.load(tmp_path / "out", split, batch_size=7, shuffle=False):
            matrix = features["features"]
            assert matrix.dense_shape.numpy().tolist() == [len(labels), expected]
            values = dense(matrix)
            for row, label in enumerate(labels.numpy().reshape(-1).tolist()):
                loaded.append(
                    (label, {index: value for (own, index), value in values.items() if own == row})
                )
    assert sorted(map(repr, loaded)) == sorted(
        repr((label, dict(sorted(values.items())))) for label, values in rows
    )


@pytest.mark.end_to_end
def test_inferred_schema_is_a_contract(tmp_path: Path) -> None:
    """The same data meets a frozen schema with the sparse feature.

    An index beyond its size is named.
    """
    write(tmp_path / "rows.libsvm", as_libsvm(ROWS))
    dataset = convert(tmp_path, RECIPE.format(format="libsvm", options="", more=""))
    frozen = (Path(dataset.folder) / "schema" / "schema.pbtxt").read_bytes()
    write(tmp_path / "frozen.pbtxt", frozen)
    with_contract = RECIPE.format(format="libsvm", options="", more="schema: frozen.pbtxt")
    assert convert(tmp_path, with_contract).feature_spec() == dataset.feature_spec()
    write(tmp_path / "rows.libsvm", as_libsvm([*ROWS, (1, {400: 1.0})]))
    with pytest.raises(DataError, match=r"features_index[\s\S]*400"):
        convert(tmp_path, with_contract)


def test_schema_infer_knows_the_sparse_feature_of_a_dataset(tmp_path: Path) -> None:
    """``schema infer`` returns a dataset's sparse feature and its size.

    Statistics alone have no such feature, and give columns.
    """
    write(tmp_path / "rows.libsvm", as_libsvm(ROWS))
    dataset = convert(
        tmp_path, RECIPE.format(format="libsvm", options=", libsvm: {size: 50}", more="")
    )
    inferred = tmp_path / "inferred.pbtxt"
    assert run(["schema", "infer", dataset.folder, "--output", str(inferred)]) == 0
    assert read_schema(str(inferred)) == dataset.schema
    (Path(dataset.folder) / "schema" / "schema.pbtxt").unlink()
    alone = tmp_path / "alone.pbtxt"
    assert run(["schema", "infer", dataset.folder, "--output", str(alone)]) == 0
    assert not read_schema(str(alone)).sparse_feature
    assert {feature.name for feature in read_schema(str(alone)).feature} == {
        "label",
        "features_index",
        "features_value",
    }


@pytest.mark.parametrize(
    ("more", "features"),
    [
        ("drop: features_value", {"features_index", "label"}),
        ("encode: {features_value: log1p}", {"features_index", "features_value", "label"}),
    ],
)
def test_sparse_feature_stays_while_its_columns_do(tmp_path, more, features):
    """A sparse feature stays if both of its columns are unchanged.

    Otherwise its columns are features.
    """
    write(tmp_path / "rows.libsvm", as_libsvm(ROWS))
    dataset = convert(tmp_path, RECIPE.format(format="libsvm", options="", more=more))
    assert set(dataset.feature_spec()) == features


def test_inspect_and_plan_show_it(tmp_path: Path) -> None:
    """``inspect`` shows indices from 0; the plan names feature and size."""
    write(tmp_path / "rows.libsvm", "1 4:0.5 8:1\n0\n")
    recipe = RECIPE.format(format="libsvm", options="", more="").replace("split:", "# split:")
    dataset = convert(tmp_path, recipe)
    shown = "".join(inspect_examples(dataset.folder, 2))
    assert re.search(r"features_index +\[3, 7\]\n  features_value +\[0.5, 1.0\]\n", shown)
    plan = plan_in(tmp_path, recipe)
    assert (
        "features: sparse, of features_index, features_value; size learned from the data"
        in plan.describe()
    )
    schema = dataset.schema
    index = next(feature for feature in schema.feature if feature.name == "features_index")
    assert (index.int_domain.min, index.int_domain.max) == (0, 7)


@pytest.mark.end_to_end
def test_serving_graph_gives_what_is_loaded(tmp_path: Path) -> None:
    """The graph returns the sparse tensor that the records parse into.

    There is an encoding as well; signatures take and return the columns.
    """
    import tensorflow_transform as tft

    write(tmp_path / "rows.libfm", "1 1:0.5 3:1\n0 9:2\n2\n")
    more = "encode: {label: {cast: float32}}"
    recipe = RECIPE.format(format="libfm", options="", more=more).replace("split:", "# split:")
    dataset = convert(tmp_path, recipe)
    ((loaded, _),) = loader.load(dataset.folder, batch_size=3, shuffle=False)
    graph = bp.make_graph(dataset.folder)
    output = tft.TFTransformOutput(str(Path(graph).parent))
    raw = {
        "label": tf.constant([[1], [0], [2]], tf.int64),
        "features_index": tf.RaggedTensor.from_row_lengths(
            tf.constant([1, 3, 9], tf.int64), [2, 1, 0]
        ).to_sparse(),
        "features_value": tf.RaggedTensor.from_row_lengths(
            tf.constant([0.5, 1, 2]), [2, 1, 0]
        ).to_sparse(),
    }
    served = output.transform_features_layer()(raw)
    assert set(served) == {"features", "label"}
    assert (
        dense(served["features"])
        == dense(loaded["features"])
        == {(0, 1): 0.5, (0, 3): 1.0, (1, 9): 2.0}
    )
    assert (
        served["features"].dense_shape.numpy().tolist()
        == loaded["features"].dense_shape.numpy().tolist()
    )
    model = tf.saved_model.load(graph)
    given = set(model.signatures["serving_default"].structured_outputs)
    columns = {"features_index", "features_value"}
    assert given == columns | {f"{name}_row_lengths" for name in columns}


ROOT = Path(__file__).parents[2]
# a9a's 14 columns as groups of features, at most one set in each: as LIBSVM's page describes the
# data.
GROUPS = [range(start, start + 8) for start in range(1, 113, 8)]


def as_a9a(rows: int, seed: int) -> str:
    """Returns text in a9a's form, with its blank at each line end."""
    random = np.random.default_rng(seed)
    lines = []
    for _ in range(rows):
        places = [int(random.choice(group)) for group in GROUPS if random.random() > 0.05]
        label = "+1" if random.random() < 0.25 else "-1"
        lines.append(f"{label} {''.join(f'{place}:1 ' for place in places)}\n")
    return "".join(lines)


def test_example_recipe_runs_on_files_as_they_are_downloaded(tmp_path: Path, monkeypatch) -> None:
    """The recipe under examples/ and its frozen schema take a9a's form.

    Every row has its label and its features.
    """
    for name in ("examples/libsvm/recipe.yaml", "schemas/a9a.pbtxt"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    data = tmp_path / ".demo" / "libsvm-data"
    data.mkdir(parents=True)
    texts = {"train": as_a9a(120, 1), "eval": as_a9a(40, 2)}
    write(data / "a9a", texts["train"])
    write(data / "a9a.t", texts["eval"])
    monkeypatch.chdir(tmp_path)
    recipe = load("examples/libsvm/recipe.yaml")
    convert_module.convert(make_plan(recipe), "out", quiet=True)
    verify_dataset("out")
    for split, text in texts.items():
        loaded = []
        for features, labels in loader.load("out", split, batch_size=50, shuffle=False):
            matrix = tf.sparse.to_dense(features["features"]).numpy()
            assert matrix.shape == (len(labels), 123)
            loaded += [(label, tuple(np.flatnonzero(row) + 1), row.sum()) for row, label in zip(matrix, labels.numpy().reshape(-1).tolist(), strict=True)]  # fmt: skip
        expected = []
        for line in text.splitlines():
            label, *pairs = line.split()
            places = tuple(int(pair.split(":")[0]) for pair in pairs)
            expected.append((int(label == "+1"), places, float(len(places))))
        assert sorted(loaded) == sorted(expected)


def test_sparse_feature_needs_a_name_of_its_own(tmp_path: Path) -> None:
    """A feature's name that a column has already is a problem."""
    write(tmp_path / "rows.libsvm", as_libsvm(ROWS))
    recipe = RECIPE.format(format="libsvm", options="", more="derive: {features: label + 1}")
    with pytest.raises(RecipeProblems, match="found the sparse feature 'features'"):
        plan_in(tmp_path, recipe)


def test_joined_rows_keep_their_sparse_tensor(tmp_path: Path) -> None:
    """A joined source's tensor has the join's prefix.

    A row without a match has no values in it.
    """
    write(tmp_path / "rows.libsvm", "1 qid:7 1:2 3:4\n0 qid:8 2:1\n")
    write(tmp_path / "clicks.csv", "id\n7\n9\n")
    recipe = (
        "name: j\nfrom: clicks\nsources: {clicks: clicks.csv, rows: {path: rows.libsvm, key: "
        "qid}}\n"
        "join: [{source: rows, on: {id: qid}, prefix: x_}]\nkeep: [id, x_features_index, "
        "x_features_value]\n"
        "output: {shuffle: false}\n"
    )
    dataset = convert(tmp_path, recipe)
    (features,) = loader.load(dataset.folder, batch_size=2, shuffle=False)
    assert set(features) == {"id", "x_features"}
    assert dense(features["x_features"]) == {(0, 0): 2.0, (0, 2): 4.0}
    assert features["x_features"].dense_shape.numpy().tolist() == [2, 3]
