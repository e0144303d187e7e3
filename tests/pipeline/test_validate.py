"""Validation by the command line: convert, validate, describe and schema."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2

from beam_pipelines.analysis.schema import read_schema
from beam_pipelines.cli.main import run
from beam_pipelines.dataset.verify import verify_dataset
from tests.support.contents import contents

pytestmark = pytest.mark.end_to_end

DATA = 'id,carrier,dist,note\n1,AA,10,"multi\nline"\n2,ZZ,20,x\n3,UA,-5,\n4,QQ,7,y\n'
SCHEMA = """# ours
feature { name: "id" type: INT }
feature { name: "carrier" type: BYTES domain: "carrier" drift_comparator { infinity_norm { threshold: 0.1 } } }  # two letters
feature { name: "dist" type: INT int_domain { min: 0 } }
feature { name: "note" type: BYTES presence { min_fraction: 1 } }
string_domain { name: "carrier" value: "AA" value: "UA" }
"""
ALL = "ENUM_TYPE_UNEXPECTED_STRING_VALUES,dist:INT_TYPE_SMALL_INT,note:FEATURE_TYPE_LOW_FRACTION_PRESENT"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a recipe, data with three anomalies, and a schema."""
    (tmp_path / "d.csv").write_text(DATA)
    (tmp_path / "s.pbtxt").write_text(SCHEMA)
    (tmp_path / "r.yaml").write_text(
        "name: r\nsources: {d: d.csv}\nschema: s.pbtxt\noutput: {num_shards: 1}\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def cli(*arguments: str) -> int:
    return run(
        [*arguments, *(["--quiet"] if arguments[0] in ("convert", "validate", "describe") else [])]
    )


def anomalies(folder: Path, split: str = "train") -> anomalies_pb2.Anomalies:
    return anomalies_pb2.Anomalies.FromString(
        (folder / f"anomalies/Split-{split}/SchemaDiff.pb").read_bytes()
    )


def test_a_run_with_anomalies_stops_and_lists_the_rows(folder, capsys):
    """Exit 1, a table, and rows in rejected/; corrected data pass."""
    assert cli("convert", "r.yaml", "--output", "out") == 1
    shown = capsys.readouterr().err
    assert "3 anomalies against s.pbtxt; nothing was written:" in shown
    lines = [line.split() for line in shown.splitlines()]
    assert ["split", "feature", "what", "expected", "found", "where", "to", "look"] in lines
    assert any(
        "carrier" in line and "ZZ (~25%), QQ (~25%)" in line and "d.csv, line 4 and 1 more" in line
        for line in shown.splitlines()
    )
    assert list(contents(folder / "out")) == ["rejected/_stopped_run.jsonl"]
    rows = [
        json.loads(line)
        for line in (folder / "out/rejected/_stopped_run.jsonl").read_text().splitlines()
    ]
    assert [(row["anomaly"], row["column"], row["position"]) for row in rows] == [
        ("ENUM_TYPE_UNEXPECTED_STRING_VALUES", "carrier", "line 4"),
        ("ENUM_TYPE_UNEXPECTED_STRING_VALUES", "carrier", "line 6"),
        ("INT_TYPE_SMALL_INT", "dist", "line 5"),
        ("FEATURE_TYPE_LOW_FRACTION_PRESENT", "note", "line 5"),
    ]
    assert rows[2]["reason"] == "found -5, expected at least 0"
    (folder / "d.csv").write_text("id,carrier,dist,note\n1,AA,10,x\n")
    assert cli("convert", "r.yaml", "--output", "out") == 0
    assert not (folder / "out/rejected").exists()


def test_what_is_accepted_passes_and_stays_recorded(folder: Path) -> None:
    """Accepted anomalies are warnings, and records parse by the dataset's schema."""
    assert cli("convert", "r.yaml", "--output", "out", "--allow_anomalies", ALL) == 0
    verify_dataset("out")
    found = anomalies(folder / "out")
    assert sorted(found.anomaly_info) == ["carrier", "dist", "note"]
    assert {info.severity for info in found.anomaly_info.values()} == {
        anomalies_pb2.AnomalyInfo.WARNING
    }
    assert [value for domain in found.baseline.string_domain for value in domain.value] == [
        "AA",
        "UA",
    ]
    assert cli("validate", "out") == 0, "the dataset passes its own schema"
    assert cli("validate", "out", "--schema", "s.pbtxt") == 1
    assert cli("validate", "out", "--schema", "s.pbtxt", "--allow_anomalies", ALL) == 0


def test_a_recipe_accepts_anomalies(folder, capsys):
    """``allow_anomalies`` of the recipe holds for every run."""
    with (folder / "r.yaml").open("a") as file:
        file.write(f"allow_anomalies: [{ALL}]\n")
    assert cli("convert", "r.yaml", "--output", "out") == 0
    assert cli("validate", "r.yaml") == 0
    wrong = "allow_anomalies=[SCHEMA_NEW_COLUM, no:INT_TYPE_BIG_INT]"
    capsys.readouterr()
    assert cli("validate", "r.yaml", "--set", wrong) == 2
    shown = capsys.readouterr().err
    assert "found no type of an anomaly, expected one" in shown
    assert "found 'no', expected a feature of the schema or a column" in shown


def test_an_expectation_is_a_condition_on_statistics(folder, capsys):
    """Expectations do what conditions in SQL did."""
    (folder / "r.yaml").write_text("name: d\nsources: {d: d.csv}\n")
    rule = "expect=[{name: few_zeros, column: count_if(dist < 0) < %d}]"
    assert cli("convert", "r.yaml", "--output", "out", "--set", rule % 1) == 1
    assert "few_zeros" in capsys.readouterr().err
    assert cli("convert", "r.yaml", "--output", "out", "--set", rule % 2) == 0


def test_a_stopped_run_leaves_the_dataset_that_is_there(folder: Path) -> None:
    """--overwrite with bad data changes no file of the old dataset."""
    assert cli("convert", "r.yaml", "--output", "out", "--allow_anomalies", ALL) == 0
    before = contents(folder / "out")
    assert cli("convert", "r.yaml", "--output", "out", "--overwrite") == 1
    after = contents(folder / "out")
    assert set(after) - set(before) == {"rejected/_stopped_run.jsonl"}
    assert {name: after[name] for name in before} == before
    assert cli("convert", "r.yaml", "--output", "out", "--overwrite", "--allow_anomalies", ALL) == 0
    assert not (folder / "out/rejected").exists()


def test_validate_reads_a_recipe(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``validate`` reads the recipe's data; --output keeps the results and rows."""
    assert cli("validate", "r.yaml", "--output", "seen") == 1
    assert "the data do not pass" in capsys.readouterr().err
    names = contents(folder / "seen")
    assert {"rejected/_anomalies.jsonl", "description.json", "report.html"} <= set(names)
    assert cli("validate", "r.yaml", "--allow_anomalies", ALL) == 0
    assert cli("validate", "d.csv", "--schema", "s.pbtxt") == 1
    assert "Add --output" in capsys.readouterr().err


def test_data_without_their_recipe(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error proposes the dataset's recipe, with which the columns are right."""
    schema = Path("s.pbtxt")
    far = 'feature { name: "far" type: INT presence { min_count: 1 } }'
    schema.write_text(f"{SCHEMA}{far}\n")
    Path("d.csv").write_text("id,carrier,d,note\n" + "1,ZZ,5,x\n" * 40)
    assert cli("validate", "d.csv", "--schema", "s.pbtxt") == 1
    shown = capsys.readouterr().err
    assert "against s.pbtxt" in shown
    assert "d.csv, line 2 and at least 9 more" in shown
    assert "not in s.pbtxt" in shown
    path = folder / "d.csv"
    assert f"validate the recipe: '--set sources.SOURCE.path={path}' has it read" in shown
    Path("recipes").mkdir()
    Path("recipes/r.yaml").write_text(
        "name: r\nsources: {d: old.csv}\nderive: {dist: d, far: d + 1}\ndrop: d\n"
    )
    remedy = ("--set", f"sources.d.path={path}")
    assert cli("validate", "recipes/r.yaml", *remedy, "--schema", "s.pbtxt") == 1
    shown = capsys.readouterr().err
    assert "1 anomaly" in shown
    assert "validate the recipe" not in shown


def test_describe_reports_and_does_not_stop(folder: Path) -> None:
    """``describe`` exits with 0, and writes anomalies and their rows."""
    assert cli("describe", "r.yaml", "--output", "seen") == 0
    assert sorted(anomalies(folder / "seen").anomaly_info) == ["carrier", "dist", "note"]
    assert len((folder / "seen/rejected/_anomalies.jsonl").read_text().splitlines()) == 4


def test_drift_against_an_earlier_dataset(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--baseline compares by the schema's comparators, and keeps the measurement."""
    good = "id,carrier,dist,note\n1,AA,10,x\n2,UA,3,y\n"
    (folder / "d.csv").write_text(good)
    assert cli("convert", "r.yaml", "--output", "before") == 0
    (folder / "d.csv").write_text(good + "3,AA,1,z\n4,AA,1,z\n")
    assert cli("convert", "r.yaml", "--output", "now", "--baseline", "before") == 1
    assert "High Linfty distance between current and previous" in capsys.readouterr().err
    allowed = "--allow_anomalies=COMPARATOR_L_INFTY_HIGH"
    assert cli("convert", "r.yaml", "--output", "now", "--baseline", "before", allowed) == 0
    # With one split, the report shows drift against a baseline only.
    assert ' only-one"' in (folder / "before/report.html").read_text()
    assert ' only-one"' not in (folder / "now/report.html").read_text()
    [info] = anomalies(folder / "now").drift_skew_info
    assert info.drift_measurements[0].value == pytest.approx(0.25)
    assert cli("validate", "now", "--schema", "s.pbtxt", "--baseline", "before") == 1
    assert cli("validate", "now", "--schema", "s.pbtxt", "--baseline", "now") == 0


@pytest.mark.parametrize("schema", ["", "schema: plain.pbtxt"], ids=["inferred", "named"])
def test_drift_without_a_threshold(folder, capsys, schema):
    """Without thresholds, --baseline finds what ``compare`` finds."""
    (folder / "plain.pbtxt").write_text(
        'feature { name: "id" type: INT } feature { name: "city" type: BYTES }'
    )
    (folder / "r.yaml").write_text(f"name: d\nsources: {{d: d.csv}}\n{schema}\n")

    def write(cities: str, start: int) -> None:
        rows = [f"{start + row},{cities[row % len(cities)]}\n" for row in range(300)]
        (folder / "d.csv").write_text("id,city\n" + "".join(rows))

    write("abc", 0)
    assert cli("convert", "r.yaml", "--output", "before") == 0
    write("abcab", 5000)
    assert cli("convert", "r.yaml", "--output", "alike", "--baseline", "before") == 0
    write("abd", 5000)
    assert cli("convert", "r.yaml", "--output", "now", "--baseline", "before") == 1
    error = capsys.readouterr().err
    assert "city     Drift against the baseline  about the same as in the baseline" in error
    assert not (folder / "now" / "dataset.json").exists()
    allowed = "--allow_anomalies=city:COMPARATOR_JENSEN_SHANNON_DIVERGENCE_HIGH"
    assert cli("convert", "r.yaml", "--output", "now", "--baseline", "before", allowed) == 0
    validate = ["validate", "now", "--schema", "before/schema/schema.pbtxt", "--baseline", "before"]
    assert cli(*validate, "--allow_anomalies=ENUM_TYPE_UNEXPECTED_STRING_VALUES") == 1
    assert "1 anomaly" in capsys.readouterr().err
    assert cli("compare", "before", "now") == 1
    assert cli("compare", "before", "alike") == 0


def test_splits_of_the_baseline(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A split that only one of both has is an anomaly."""
    rows = "".join(f"{n},{'abc'[n % 3]}\n" for n in range(300))
    (folder / "d.csv").write_text("id,city\n" + rows)
    text = "name: d\nsources: {{d: d.csv}}\nsplit: {{train: 0.8, {}}}\n"
    for name, splits in (("two", "eval: 0.2"), ("three", "eval: 0.1, test: 0.1")):
        (folder / f"{name}.yaml").write_text(text.format(splits))
        assert cli("describe", f"{name}.yaml", "--output", name) == 0
    capsys.readouterr()
    assert cli("validate", "three.yaml", "--baseline", "two") == 1
    assert "test   (the split)  previous data missing" in capsys.readouterr().err
    assert cli("validate", "two.yaml", "--baseline", "three") == 1
    shown = capsys.readouterr().err
    assert "a split 'test', as in the baseline" in shown
    assert "(here: COMPARATOR_TREATMENT_DATA_MISSING)" in shown
    allowed = "--allow_anomalies=COMPARATOR_TREATMENT_DATA_MISSING"
    assert cli("validate", "two.yaml", "--baseline", "three", allowed) == 0
    assert cli("validate", "d.csv", "--baseline", "two") == 1
    assert "a split 'eval', as in the baseline" in capsys.readouterr().err


def test_rows_against_the_baseline(folder, capsys):
    """A dataset with too few rows does not replace the one before.

    With the anomaly allowed, it does.
    """
    (folder / "s.pbtxt").write_text(
        'feature { name: "id" type: INT }\n'
        "dataset_constraints { num_examples_drift_comparator { min_fraction_threshold: 0.9 } }\n"
    )
    (folder / "d.csv").write_text("id\n1\n2\n3\n")
    assert cli("convert", "r.yaml", "--output", "out") == 0
    (folder / "d.csv").write_text("id\n1\n2\n")
    before = contents(folder / "out")
    again = ["convert", "r.yaml", "--output", "out", "--overwrite", "--baseline", "out"]
    assert cli(*again) == 1
    error = capsys.readouterr().err
    assert "Low num examples in current" in error
    assert "2 rows against 3" in error
    assert {name: contents(folder / "out")[name] for name in before} == before
    assert cli(*again, "--allow_anomalies=COMPARATOR_LOW_NUM_EXAMPLES") == 0
    recorded = anomalies(folder / "out").dataset_anomaly_info
    assert recorded.severity == anomalies_pb2.AnomalyInfo.WARNING
    validate = ["validate", "out", "--schema", "s.pbtxt", "--baseline"]
    assert cli(*validate, "out") == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["convert", "r.yaml", "--output", "o", "--allow_anomalies", "SCHEMA_NEW_COLUM"], "Did you mean 'SCHEMA_NEW_COLUMN'?"),
        (["validate", "r.yaml", "--environment", "SERVING"], "expected none, because the schema names no environment"),
        (["validate", "r.yaml", "--baseline", "nowhere"], "nowhere: found no statistics"),
        (["validate", "d.csv", "--environment", "SERVING"], "found no schema to go by"),
        (["validate", "nowhere", "--schema", "s.pbtxt"], "nowhere"),
        (["validate", "stats.pb", "--schema", "s.pbtxt"], "stats.pb: found no statistics, expected a dataset"),
        (["schema", "infer", "nowhere", "--output", "x.pbtxt"], "nowhere: found no statistics"),
        (["schema", "update", "s.pbtxt", "d.csv"], "d.csv: found no statistics"),
    ],
)  # fmt: skip
def test_mistakes_on_the_command_line(folder, capsys, arguments, message):
    """Exit 2 and a message with the expected value."""
    assert cli(*arguments) == 2
    assert message in capsys.readouterr().err


def test_a_schema_is_inferred_widened_and_compared(folder, capsys):
    """``infer`` makes a schema, ``update`` widens it, diff shows the change.

    ``update`` makes data pass, and drops comments if it is told where to write.
    """
    assert cli("describe", "r.yaml", "--output", "seen") == 0
    (folder / "old.pbtxt").write_text(SCHEMA)
    capsys.readouterr()
    assert cli("schema", "update", "s.pbtxt", "seen") == 2
    assert (folder / "s.pbtxt").read_text() == SCHEMA
    error = capsys.readouterr().err
    assert "s.pbtxt: found comments" in error
    (output,) = re.findall("--output [^' ]+", error)
    assert cli("schema", "update", "s.pbtxt", "seen", *output.split()) == 0
    printed = capsys.readouterr().out
    expected = SCHEMA.replace('value: "UA"', 'value: "UA" value: "QQ" value: "ZZ"').replace(
        "min: 0", "min: -5"
    )
    assert read_schema("s.pbtxt") == text_format.Parse(
        expected.replace("min_fraction: 1", "min_fraction: 0.75"), schema_pb2.Schema()
    )
    assert cli("schema", "diff", "old.pbtxt", "s.pbtxt") == 0
    assert capsys.readouterr().out == printed
    assert "  - int_domain.min: 0\n  + int_domain.min: -5\n" in printed
    assert cli("validate", "r.yaml") == 0
    assert cli("schema", "update", "s.pbtxt", "seen") == 0
    assert capsys.readouterr().out.endswith("no difference\n")
    assert cli("schema", "infer", "seen", "--output", "new.pbtxt") == 0
    assert cli("schema", "infer", "seen", "--output", "new.pbtxt") == 2
    assert cli("validate", "seen", "--schema", "new.pbtxt") == 0


def test_a_label_may_be_absent_where_serving_says_so(folder: Path) -> None:
    """One schema serves training with, and serving without the label."""
    (folder / "s.pbtxt").write_text(
        'default_environment: "TRAINING" default_environment: "SERVING"\nfeature { name: "id" '
        "type: INT }\n"
        'feature { name: "late" type: INT presence { min_count: 1 } not_in_environment: "SERVING" '
        "}\n"
    )
    (folder / "d.csv").write_text("id\n1\n2\n")
    assert cli("validate", "r.yaml") == 1
    assert cli("validate", "r.yaml", "--environment", "TRAINING") == 1
    assert cli("validate", "r.yaml", "--environment", "SERVING") == 0
