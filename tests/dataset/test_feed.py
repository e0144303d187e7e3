"""How fast a dataset feeds a trainer, and what bounds it."""

from __future__ import annotations

import io
import os
import pathlib
import subprocess
import sys
import time

import PIL.Image
import pytest

import beam_pipelines as bp
from beam_pipelines.cli.main import run
from beam_pipelines.dataset import feed
from tests.reader.datasets import write_records
from tests.support.web_server import served
from tests.support.wire import example

SCHEMA = """
feature { name: "id" type: INT presence { min_fraction: 1 } shape { dim { size: 1 } } }
feature { name: "image" type: BYTES presence { min_fraction: 1 } shape { dim { size: 1 } } }
"""
# A second of one core that reads 1,000 rows in 10 batches.
RATE = feed.Rate(1000, 10, 1.0, 0.1, 0.1, 0.0, 0, 0.0)
PARTS = {"read and inflate": 10.0, "parse columns": 70.0, "decode pictures": 20.0}


@pytest.mark.parametrize(
    ("change", "is_remote", "bound"),
    [
        ({"cpu": 4.0}, False, "parse columns"),
        ({"cpu": 4.0, "consumer": 0.9}, True, "parse columns"),
        ({"cpu": 1.0, "consumer": 0.9}, True, "this thread"),
        ({"queued": 4.0}, True, "other programs"),
        ({"queued": 3.0}, True, "network"),
        ({"queued": 0.2}, False, "other programs"),
        ({}, True, "network"),
        ({"disk": 1 << 28}, False, "disk"),
        ({"disk": 1 << 10}, False, "lock"),
    ],
)
def test_bounds(change, is_remote, bound, monkeypatch):
    """A verdict names the thing that is used up, and the remedy."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(4))
    found = feed.judge(RATE._replace(**change), PARTS, is_remote, None)
    assert (found.bound, found.advice) == (bound, feed.ADVICE[bound])
    assert (found.rows_per_second, found.steps_per_second, found.waits) == (1000, 10, None)


@pytest.mark.parametrize(("step", "waits"), [(0.2, 0), (0.1, 0), (0.05, 0.5), (0.001, 0.99)])
def test_steps(step, waits):
    """A step that is shorter than reading its batch waits."""
    assert feed.judge(RATE, PARTS, False, step).waits == pytest.approx(waits)


def test_parts():
    """Each reading adds a part of the work, of at least 0."""
    rates = [RATE._replace(cpu=cpu) for cpu in (0.01, 0.03, 0.02)]
    found = feed.parts_of(rates)
    assert found == pytest.approx(dict(zip(feed.PARTS, (10, 20, 0), strict=True)))
    assert feed.parts_of(rates[:2]).keys() == {"read and inflate", "parse columns"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    picture = io.BytesIO()
    PIL.Image.effect_noise((800, 600), 99).save(picture, "JPEG")
    values = [
        {"id": ("int64", [number]), "image": ("bytes", [picture.getvalue()])}
        for number in range(50)
    ]
    path = tmp_path_factory.mktemp("feed") / "out"
    path.mkdir()
    return write_records(path, SCHEMA, [example(one) for one in values])


def test_datasets(folder):
    """A dataset is read again and again until the time is over."""
    images = {"image": bp.Image((4, 4), "random")}
    found = feed.measure_feed(bp.open(folder), None, 20, 0.3, images, 1e-9)
    # Three batches have the 50 rows of an epoch; the last ones may be cut off.
    assert found.rows_per_second / found.steps_per_second == pytest.approx(50 / 3, rel=0.2)
    assert found.waits > 0.9
    assert found.cpu.keys() == set(feed.PARTS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("latency", "count", "bound"), [(0, 3, "other programs"), (1, 1, "network")]
)
def test_busy_machine(folder, latency, count, bound):
    """Other programs bound a reading only if it wants what they take."""
    hog = [sys.executable, "-c", "while True: pass"]
    hogs = [subprocess.Popen(hog) for _ in range(count * len(os.sched_getaffinity(0)))]
    try:
        with served(pathlib.Path(folder), lambda *_: time.sleep(latency)) as server:
            dataset = bp.open(server.url if latency else folder)
            images = {"image": bp.Image((99, 99), "random")}
            found = feed.measure_feed(dataset, None, 20, 3, images)
    finally:
        for each in hogs:
            each.kill()
            each.wait()
    assert found.bound == bound


def test_command(folder, capsys):
    """The command says in one screen whether a step is fed."""
    options = ["--batch", "20", "--seconds", "0.2"]
    command = ["feed", folder, *options, "--images", "image=4x4,random", "--step"]
    assert run([*command, "1000s"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 10
    assert any(line.startswith("fed           yes: ") for line in lines)
    assert run([*command, "0.001us"]) == 0
    assert "fed           no, it waits" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--step 12", "found '12', expected a time above 0: 12ms"),
        ("--step 0ms", "found '0ms'"),
        ("--images image=4", "found 'image=4', expected NAME=HEIGHTxWIDTH"),
        ("--images image=4x4,left", "found 'image=4x4,left'"),
        ("--images id=4x4", "images: found 'id', expected a feature of bytes"),
        ("--split other", "other"),
        ("--batch 51", "--batch 51: found a split 'train' of 50 rows, expected a batch at least"),
    ],
)
def test_wrong_options(folder, options, message, capsys):
    """A wrong option says what was expected."""
    assert run(["feed", folder, "--batch", "20", *options.split()]) in {1, 2}
    assert message in capsys.readouterr().err
