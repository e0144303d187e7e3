"""The cost of columns grows linearly with their number."""

from __future__ import annotations

import dataclasses
import math
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis.anomalies import find_anomalies
from beam_pipelines.analysis.schema import infer_schema, read_schema, schema_to_text
from beam_pipelines.analysis.schema.text import feature_lines
from beam_pipelines.analysis.schema.update import update_schema
from beam_pipelines.analysis.statistics import TableStatistics
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.schema_features import duplicates
from beam_pipelines.core.process import pickling
from beam_pipelines.core.process.pickling import PickledOnce
from beam_pipelines.encodings.planner import plan_encode
from beam_pipelines.pipeline.convert import Conversion
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.pipeline.run_options import RunFolders
from beam_pipelines.recipe.joins import Join
from beam_pipelines.recipe.model import Recipe, Source
from beam_pipelines.sources.plan import FileInfo, SourcePlan
from beam_pipelines.transforms.join.plan import JoinStep, plan_join
from beam_pipelines.transforms.select.select import plan_select
from tests.support.cost import least_ratio

pytestmark = pytest.mark.end_to_end

FEW, MANY = 400, 1600
# Four times as many columns take four times as long; sixteen times if each is searched among all.
LARGEST_RATIO = 7


def names(count: int) -> list[str]:
    return [f"column{number:05}" for number in range(count)]


def columns(count: int) -> pa.Schema:
    return pa.schema([(name, pa.int64()) for name in names(count)])


def table(count: int) -> TableStatistics:
    """Statistics of string columns, each with its own domain."""
    return TableStatistics.of(pa.record_batch({name: ["a", "b", "b"] for name in names(count)}))


def schema(count: int) -> schema_pb2.Schema:
    """A schema of string columns, each with its own two-value domain."""
    features = [
        schema_pb2.Feature(
            name=name, type=schema_pb2.BYTES, domain=name, presence={"min_fraction": 1}
        )
        for name in names(count)
    ]
    return schema_pb2.Schema(
        feature=features,
        string_domain=[schema_pb2.StringDomain(name=name, value=["a"]) for name in names(count)],
    )


def recipe(**changes: Any) -> Recipe:
    text = "name: wide\nsources: {wide: wide.parquet}\n"
    return dataclasses.replace(parse_recipe(text, "."), **changes)


def source_plan(name: str, schema: pa.Schema) -> SourcePlan:
    return SourcePlan(
        Source(name, ("wide.parquet",)),
        "parquet",
        (FileInfo("wide.parquet", 1),),
        schema,
        schema,
        (),
    )


# Operation on many columns -> function that makes its arguments from their number.
WORK: dict[str, tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]]]] = {
    "infer": (infer_schema, lambda count: ({"train": table(count)},)),
    "find anomalies": (find_anomalies, lambda count: ({"train": table(count)}, schema(count))),
    "update": (update_schema, lambda count: (schema(count), [table(count)])),
    "lines of features": (
        feature_lines,
        lambda count: (text_format.MessageToString(schema(count)),),
    ),
    "duplicates": (lambda found: list(duplicates(found)), lambda count: (schema(count),)),
    "select": (plan_select, lambda count: (recipe(drop=tuple(names(count)[1:])), columns(count))),
    "encode": (
        plan_encode,
        lambda count: (
            recipe(encode={name: (("one_hot", {"value": 2}),) for name in names(count)}),
            columns(count),
        ),
    ),
    "join": (
        plan_join,
        lambda count: (
            (Join("right", ((names(1)[0], names(1)[0]),), prefix="right_"),),
            source_plan("left", columns(count)),
            {"right": source_plan("right", columns(count))},
        ),
    ),
}


@pytest.mark.parametrize("name", WORK)
def test_time_grows_with_columns(name: str) -> None:
    """Four times the columns take less than seven times the time."""
    work, arguments = WORK[name]
    few, many = arguments(FEW), arguments(MANY)
    assert least_ratio(lambda: work(*many), lambda: work(*few), LARGEST_RATIO) < LARGEST_RATIO


@dataclasses.dataclass(frozen=True)
class Value(PickledOnce):
    """A value that is pickled once."""

    number: int
    parts: tuple[Any, ...] = ()


def roundtrip(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))  # noqa: S301


def test_a_value_is_pickled_once() -> None:
    """A value unpickles as itself in its process.

    A changed copy is pickled again.
    """
    inner = Value(1)
    value = Value(2, (inner, inner))
    assert roundtrip([value, value]) == [value, value]
    assert roundtrip(value) is value
    assert roundtrip(inner) is inner
    other = dataclasses.replace(value, number=3)
    assert roundtrip(other) == other != value


def test_another_process_has_one_value_for_all() -> None:
    """A process that gets the same value twice has one equal value."""
    inner = source_plan("inner", columns(2))
    outer = JoinStep(0, Join("inner", (("a", "a"),)), inner, "hash", 1, 2, (), columns(3))
    data = [pickle.dumps(inner), pickle.dumps(outer)]
    code = (
        f"import pickle; inner, outer = map(pickle.loads, {data!r}); print(outer.source_plan "
        "is inner, outer)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"True {outer}\n"


def test_a_plan_is_pickled_once_for_all_steps(tmp_path, monkeypatch) -> None:
    """A job of 100 columns pickles each part of its plan once."""
    path = tmp_path / "wide.parquet"
    pq.write_table(pa.table({name: [1, 2] for name in names(100)}), path)
    text = (
        f"name: wide\nsources: {{wide: '{path}'}}\nencode: {{column00001: z_score}}\nsplit: "
        f"{{train: 0.5, eval: 0.5}}\n"
    )
    plan = make_plan(parse_recipe(text, str(tmp_path)))
    pickled: list[type] = []
    dumps = pickle.dumps

    class Pickle:
        """Records the types that are pickled."""

        HIGHEST_PROTOCOL, loads = pickle.HIGHEST_PROTOCOL, pickle.loads

        @staticmethod
        def dumps(value: Any, protocol: int) -> bytes:
            pickled.append(value[0])
            return dumps(value, protocol)

    monkeypatch.setattr(pickling, "pickle", Pickle)
    pipeline = beam.Pipeline("FnApiRunner")
    _ = pipeline | Conversion(plan, RunFolders(str(tmp_path / "out")), 0.0)
    pipeline.to_runner_api()
    assert len(pickled) == len(set(pickled)) > 4
    assert type(plan) in pickled


TEXTS = st.text(max_size=8) | st.sampled_from(['"', "\\", "\n", "'", "\x00", "é", "\u2028", "\x7f"])
DOMAINS = st.builds(schema_pb2.StringDomain, name=TEXTS, value=st.lists(TEXTS, max_size=4))
FEATURES = st.builds(
    schema_pb2.Feature,
    name=TEXTS,
    type=st.sampled_from([1, 2, 3]),
    string_domain=DOMAINS | st.none(),
    presence=st.builds(schema_pb2.FeaturePresence, min_fraction=st.floats(0, 1)),
)


SCHEMAS = st.builds(
    schema_pb2.Schema,
    feature=st.lists(FEATURES, max_size=3),
    sparse_feature=st.lists(st.builds(schema_pb2.SparseFeature, name=TEXTS), max_size=2),
    string_domain=st.lists(DOMAINS | st.builds(schema_pb2.StringDomain), max_size=3),
    default_environment=st.lists(TEXTS, max_size=2),
    dataset_constraints=st.builds(
        schema_pb2.DatasetConstraints, min_examples_count=st.integers(0, 9)
    )
    | st.none(),
)


@given(SCHEMAS)
def test_schemas_are_written_as_protobuf_does(found: schema_pb2.Schema) -> None:
    """A schema's text equals that of protobuf's own printer."""
    assert schema_to_text(found).decode() == text_format.MessageToString(found, as_utf8=True)


@given(
    SCHEMAS,
    st.sampled_from(["", "# a comment\n", "\n"]),
    st.integers(0, 60),
    st.sampled_from(["", " ", "}", "x", '"']),
)
def test_schemas_are_read_as_protobuf_does(
    tmp_path_factory, found, comment: str, place: int, dirt: str
) -> None:
    """A schema's text is read or refused like protobuf's parser.

    The text is edited or not.
    """
    text = comment + schema_to_text(found).decode()
    text = text[:place] + dirt + text[place:]
    path = tmp_path_factory.getbasetemp() / "schema.pbtxt"
    path.write_bytes(text.encode())
    names = [one.name for one in (*found.feature, *found.sparse_feature)]
    try:
        expected = text_format.Parse(text, schema_pb2.Schema())
    except text_format.ParseError:
        with pytest.raises(DataError):
            read_schema(str(path))
    else:
        if len(names) == len(set(names)):
            assert read_schema(str(path)) == expected


@pytest.mark.parametrize(
    "text",
    [
        'feature {\nname: "a"\nstring_domain {\n  name: "d"\n  value: "x"\n}\n}\n',
        (
            'feature {\n  name: "a" annotation {\n}\nstring_domain {\n  name: "d"\n  value: '
            '"x"\n}\n  '
            "}\n"
        ),
        '# string_domain\nstring_domain {\n  name: "d"\n  value: "x"\n}\nfeature { name: "a" }\n',
    ],
)
def test_domains_stay_where_they_stand(tmp_path, text: str) -> None:
    """An unindented domain in a feature belongs to the feature.

    Field order does not matter.
    """
    path = tmp_path / "schema.pbtxt"
    path.write_text(text)
    assert read_schema(str(path)) == text_format.Parse(text, schema_pb2.Schema())


def test_schemas_know_no_field_before_string_domains_but_features() -> None:
    """String domains are written after features and before all other fields."""
    numbers = {field.name: field.number for field in schema_pb2.Schema.DESCRIPTOR.fields}
    assert min(numbers, key=numbers.__getitem__) == "feature"
    others = [
        number for name, number in numbers.items() if name not in ("feature", "string_domain")
    ]
    assert numbers["string_domain"] < min(others, default=math.inf)
