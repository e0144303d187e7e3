"""Every runner writes the same bytes.

These are the bytes of examples, statistics, schema, anomalies, transform graph, report and
manifest.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.metrics import monitoring_infos

from beam_pipelines.core.errors import DataError
from beam_pipelines.dataset.manifest import read_manifest
from beam_pipelines.dataset.verify import verify_dataset
from beam_pipelines.files.beam import files
from beam_pipelines.pipeline import commit, convert
from beam_pipelines.transforms.metrics import NAMESPACE
from tests.engines import conversions
from tests.engines.conftest import LOCAL
from tests.engines.engines import Engine, FlinkCluster
from tests.support import remote_stores
from tests.support.counted import expected_counts, found_counts

# Beam's accumulator, of all metrics of a job.
CONTAINERS = "__metricscontainers"
Reference = Callable[[str], Path]

pytestmark = pytest.mark.runners


@pytest.mark.parametrize("name", conversions.CONVERSIONS)
def test_conversions(name, engine, data, reference, tmp_path):
    """Every runner writes the bytes of Beam's local runner, and they verify.

    The conversions have joins, shuffles, sink options, statistics and encodings.
    """
    conversions.convert(name, data, tmp_path / "out", engine.options)
    conversions.assert_same(tmp_path / "out", reference(name))
    assert verify_dataset(str(tmp_path / "out")).rows > 0


def test_in_an_object_store(engine, data, reference, tmp_path):
    """Workers may share an object store only."""
    with remote_stores.s3_store() as store:
        keys = (
            f"--s3_access_key_id={remote_stores.KEY}",
            f"--s3_secret_access_key={remote_stores.SECRET}",
        )
        options = (*store.options, *keys)
        files.use_options(options)
        conversions.convert("shuffled", data, f"{store.url}/out", (*engine.options, *options))
        found = store.download("out", tmp_path)
    conversions.assert_same(found, reference("shuffled"))


def test_transform(engine: Engine, data: Path, reference: Reference, tmp_path: Path) -> None:
    """Every runner transforms new data with a dataset's encodings alike."""
    conversions.transform(reference("everything"), data, tmp_path / "out", engine.options)
    conversions.assert_same(tmp_path / "out", reference("transform"))


def test_counters(engine: Engine, data: Path, tmp_path: Path) -> None:
    """Every runner counts the dataset's rows and bytes.

    Flink's REST and Spark's events show them.
    """
    conversions.convert("everything", data, tmp_path / "out", engine.options)
    manifest = read_manifest(str(tmp_path / "out"))
    expected = expected_counts(manifest)
    assert found_counts(manifest) == expected
    assert {"rows_read", "rows_filtered", "rows_matched", "rows_written"} <= {*expected}
    if engine.cluster or "spark" in engine.name:
        found = shown_by_flink(engine.cluster) if engine.cluster else shown_by_spark(engine)
        shown: Counter[str] = Counter()
        for name, number in found:
            shown[name] += number
        assert expected.items() <= shown.items()


def shown_by_flink(cluster: FlinkCluster) -> list[tuple[str, int]]:
    """Returns the newest job's counters, as the JobManager tells them."""
    job = max(cluster.ask("/jobs/overview")["jobs"], key=lambda job: job["start-time"])["jid"]
    found = cluster.ask(f"/jobs/{job}/accumulators")["user-task-accumulators"]
    (shown,) = [json.loads(each["value"]) for each in found if each["name"] == CONTAINERS]
    return [
        (metric["labels"]["NAME"], VarIntCoder().decode(base64.b64decode(metric["payload"])))
        for metric in shown["metrics"]["attempted"]
        if metric["labels"].get("NAMESPACE") == NAMESPACE
        and metric["type"] == monitoring_infos.SUM_INT64_TYPE
    ]


def shown_by_spark(engine: Engine) -> list[tuple[str, int]]:
    """Returns the newest job's counters, as its last stage shows them."""
    *_, shown = (
        each["Value"]
        for event in engine.events()
        for each in event.get("Stage Info", {}).get("Accumulables", [])
        if each["Name"] == "Beam.Metrics"
    )
    # Labels come in any order.
    found = re.findall(r"\{([^{}]*)\}: (\d+)", shown)
    counters = [(dict(re.findall(r"(\w+)=([^,]*)", own)), int(number)) for own, number in found]
    return [(own["NAME"], number) for own, number in counters if own.get("NAMESPACE") == NAMESPACE]


def test_describe(engine: Engine, data: Path, reference: Reference, tmp_path: Path) -> None:
    """``describe``, which writes no examples, gives the same on every runner."""
    conversions.describe(data, tmp_path / "out", engine.options)
    conversions.assert_same(tmp_path / "out", reference("describe"))


def test_resume(engine, data, reference, tmp_path, monkeypatch):
    """Any runner resumes the shards that a local run has finished.

    The dataset is that of a single run.
    """
    with monkeypatch.context() as patch:
        patch.setattr(commit, "check_written", _refuse)
        with pytest.raises(DataError, match="finished: run again with --resume"):
            conversions.convert("source_order", data, tmp_path / "out", LOCAL)
    notes = sorted((tmp_path / "out" / "_temporary" / "finished").glob("*.json"))
    assert len(notes) > 2
    notes[0].unlink()  # so that one shard is left to write
    left = shards_in(tmp_path / "out")
    conversions.convert("source_order", data, tmp_path / "out", engine.options, resume=True)
    conversions.assert_same(tmp_path / "out", reference("source_order"))
    assert len(left & shards_in(tmp_path / "out")) == len(notes) - 1


def shards_in(folder: Path) -> set[tuple[str, int]]:
    """Returns the name of each shard with its identity.

    Another file has another identity. The shards are in a dataset, or in its temporary folder.
    """
    found = [path for path in folder.rglob("*-of-*") if path.parent.parent.name == "examples"]
    return {(path.name, path.stat().st_ino) for path in found}


def _refuse(*_: object) -> None:
    raise DataError("refused")


def test_errors(engine: Engine, tmp_path: Path) -> None:
    """Every runner reports a bad row alike and leaves nothing."""
    rows = [f"{number},x" for number in range(5_000)]
    rows[4_321] = "4321,x,y"
    (tmp_path / "d.csv").write_text("a,b\n" + "\n".join(rows) + "\n")
    plan = conversions.plan_of("name: d\nsources: {d: d.csv}\n", tmp_path)
    with pytest.raises(DataError, match=r"^\S*d\.csv, line 4323: .*3 .*2"):
        convert.convert(plan, str(tmp_path / "out"), beam_options=engine.options, quiet=True)
    assert not any(path.is_file() for path in (tmp_path / "out").rglob("*"))
