"""``benchmarks/compare.py`` runs, counts other tools' records, and sees losses."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.end_to_end

ROWS = 1000


def compare(repository: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the script on a small table."""
    sizes = [
        f"--rows={ROWS}",
        f"--few_rows={ROWS}",
        "--repeats=1",
        "--cores=1",
        f"--folder={folder}",
    ]
    command = [sys.executable, str(repository / "benchmarks" / "compare.py"), *sizes, *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def sections(text: str) -> dict[str, list[list[str]]]:
    """Returns the cells of each line of each section, without its header."""
    found: dict[str, list[list[str]]] = {}
    for part in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        lines = [line for line in part.splitlines() if line.startswith("| ")]
        found[part.splitlines()[0]] = [
            [cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]
        ]
    return found


@pytest.mark.slow
def test_contenders_that_need_no_installation_run(repository: Path, tmp_path: Path) -> None:
    """The loops, tf.Transform and ours run the jobs that they can do.

    All rows come out, and each peer has its ratio.
    """
    jobs = ["--jobs", "csv to no compression", "parquet to gzip", "csv to gzip, encodings"]
    finished = compare(
        repository, tmp_path, "--parts", "table", "--peers", "loop", "pandas", "tft", *jobs
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    found = sections(finished.stdout)
    who = {name: [line[0] for line in lines] for name, lines in found.items() if lines}
    both = ["beam-pipelines", "beam-pipelines, gzip 6"]
    assert who == {
        "csv to no compression": ["beam-pipelines", "tutorial loop", "pandas loop"],
        "parquet to gzip": [*both, "pandas loop"],
        "csv to gzip, encodings": [*both, "pandas loop", "tf.Transform"],
    }
    for line in (line for lines in found.values() for line in lines):
        assert line[9] == f"{ROWS:,}"
        assert float(line[2]) > 0
        assert line[0].startswith("beam-pipelines") == (line[6] == "")


@pytest.mark.slow
def test_limits_of_ours_are_measured(repository: Path, tmp_path: Path) -> None:
    """The other parts print their figures: kernels, workers, first batch and memory."""
    more = ["--large_rows=2000", "--scaling_rows", str(ROWS), "40000"]
    finished = compare(
        repository, tmp_path, "--parts", "ideal", "scaling", "start", "memory", *more
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    found = {name.split(":")[0]: lines for name, lines in sections(finished.stdout).items()}
    ((name, *figures), (name_6, *figures_6)) = found["Beside the ideal"]
    assert (name, name_6) == ("our default", "gzip 6")
    for cells in (figures, figures_6):
        parse, statistics, serialize, gzip, once, _, _, twice, _ = (float(cell) for cell in cells)
        assert once == pytest.approx(parse + statistics + serialize + gzip, abs=0.03)
        assert twice == pytest.approx(once + parse, abs=0.03)
    assert [line[0] for line in found["Workers"]] == ["1"]
    assert all(float(line[1]) > 0 for line in found["Start"])
    assert [line[0] for line in found["Memory"]] == ["1,000", "2,000"]


def test_a_hollow_run_keeps_its_limits(repository: Path, tmp_path: Path) -> None:
    """All phases end, with small elements, and the manifest has all rows."""
    script = str(repository / "benchmarks" / "hollow.py")
    command = [sys.executable, script, "--ranges=6000", f"--folder={tmp_path / 'hollow'}"]
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert re.search(r"\| 422,\d{3},\d{3} rows, ", finished.stdout)


def test_it_says_who_takes_no_part_and_why(repository: Path, tmp_path: Path) -> None:
    """Peers that take no part are named with the reason.

    For those that are not installed, it is the command that installs them.
    """
    finished = compare(repository, tmp_path, "--list", "--jobs", "csv to gzip")
    assert finished.returncode == 0, finished.stderr
    (absent, *_) = re.findall(r"^Not here: (.*)$", finished.stdout, re.MULTILINE)
    assert "Ray Data (not installed: run compare.py --install)" in absent
    assert "TFDS builder (writes no gzip)" in absent
    assert "TFX (no environment with TFX: give one with --tfx)" in absent


def test_the_counter_sees_what_is_missing(repository, tmp_path, monkeypatch, capsys):
    """Rows, columns and values are counted over files with and without gzip.

    Files of other kinds are left out.
    """
    tensorflow = pytest.importorskip("tensorflow")

    def example(**features: list[int]) -> bytes:
        lists = {
            name: tensorflow.train.Int64List(value=values) for name, values in features.items()
        }
        made = {name: tensorflow.train.Feature(int64_list=values) for name, values in lists.items()}
        return tensorflow.train.Example(
            features=tensorflow.train.Features(feature=made)
        ).SerializeToString()

    for name, compression, records in [
        ("a.tfrecord", "", [example(x=[1], y=[2, 3]), example(x=[])]),
        ("b.tfrecord.gz", "GZIP", [example(z=[4])]),
    ]:
        options = tensorflow.io.TFRecordOptions(compression_type=compression)
        with tensorflow.io.TFRecordWriter(str(tmp_path / name), options) as writer:
            for record in records:
                writer.write(record)
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / "features.json").write_text("{}")
    script = str(repository / "benchmarks" / "count_records.py")
    monkeypatch.setattr(sys, "argv", [script, str(tmp_path)])
    runpy.run_path(script, run_name="__main__")
    counted = json.loads(capsys.readouterr().out)
    assert counted == {"rows": 3, "columns": ["x", "y", "z"], "values": 4}
