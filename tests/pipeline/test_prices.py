"""Prices of a conversion: their sums, and files that are refused."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.cli.main import run
from beam_pipelines.core.errors import RecipeError
from beam_pipelines.pipeline.previews.estimate import Scale, SplitScale
from beam_pipelines.pipeline.previews.prices import Prices, price_of, read_prices

PRICES = """
currency: EUR
worker_hour: 0.5
worker_cores: 4
worker_memory: 8GB
storage_gb_month: 0.02
requests_10000: 0.05
cpu_factor: 1.5
"""
# 7,200 CPU seconds; 300 ranges and 25 shards; 2 GB of shards; workers of 1 GB.
SCALE = Scale(
    size_bytes=5e9,
    ranges=300,
    largest_range_bytes=16e6,
    rows=1e6,
    splits={"train": SplitScale(9e5, 20, 0), "eval": SplitScale(1e5, 5, 0)},
    kept_bytes=3e9,
    temporary_bytes=3e9,
    shard_bytes=2e9,
    broadcast_bytes=0,
    worker_bytes=1e9,
    cpu_secs={"read": 3_200.0, "write": 4_000.0},
    limits=(),
)
amounts = st.floats(0, 1e6)


def prices_in(folder: Path, text: str) -> Prices:
    """Reads a file of prices."""
    (folder / "prices.yaml").write_text(text)
    return read_prices(str(folder / "prices.yaml"))


def test_parts_are_amounts_times_prices(tmp_path):
    """Two hours of CPU time in a plan, and a thousand requests."""
    price = price_of(SCALE, 1_000, prices_in(tmp_path, PRICES))
    assert price.parts == pytest.approx(
        {
            "workers": 7_200 * 1.5 / 3_600 / 4 * 0.5,
            "storage a month": 2 * 0.02,
            "requests": 1_000 / 10_000 * 0.05,
        }
    )
    total = sum(price.parts.values())
    assert (price.currency, price.low, price.high) == ("EUR", total * 0.75, total * 1.25)


@pytest.mark.parametrize(("memory", "fits"), [("4GB", True), ("3.9GB", False)])
def test_a_process_a_core_has_to_fit(tmp_path, memory, fits):
    """A worker needs the memory of all its processes."""
    price = price_of(SCALE, 1_000, prices_in(tmp_path, PRICES.replace("8GB", memory)))
    assert (price.worker_bytes, price.fits) == (4e9, fits)


@given(amounts, amounts, amounts, st.integers(1, 64), st.integers(2, 9))
def test_prices_and_work_are_linear(hour, storage, requests, cores, times):
    """Work of some times the size costs some times as much."""
    prices = Prices("EUR", hour, cores, 1, storage, requests)
    larger = dataclasses.replace(
        SCALE,
        shard_bytes=SCALE.shard_bytes * times,
        cpu_secs={name: secs * times for name, secs in SCALE.cpu_secs.items()},
    )
    once, often = price_of(SCALE, 7, prices), price_of(larger, 7 * times, prices)
    assert often.parts == pytest.approx({name: part * times for name, part in once.parts.items()})
    assert once.low <= sum(once.parts.values()) <= once.high


@pytest.mark.parametrize(
    ("key", "line", "message"),
    [
        ("worker_hour", "worker_hour: -1", "prices.yaml:3: worker_hour: found '-1', expected a"),
        ("worker_hour", "worker_hour: true", "worker_hour: found 'true', expected a number"),
        ("worker_hour", "worker_hour: .nan", "worker_hour: found '.nan', expected a number"),
        ("worker_hour", f"worker_hour: {10**400}", "expected a number such as 0.17, 0 or more"),
        ("worker_hour", "worker_our: 1", "unknown key 'worker_our'. Did you mean 'worker_hour'"),
        (
            "worker_hour",
            "",
            "found no 'worker_hour', expected one, for example 'worker_hour: 0.17'",
        ),
        ("worker_memory", f"worker_memory: {10**400}GB", "expected at least 1 KiB"),
        ("cpu_factor", "cpu_factor: 0", "cpu_factor: found '0', expected a number above 0"),
    ],
)
def test_wrong_prices(tmp_path, key, line, message):
    """An error names the line, what was found and what was expected."""
    with pytest.raises(RecipeError) as caught:
        prices_in(tmp_path, re.sub(f"^{key}: .*$", line, PRICES, flags=re.MULTILINE))
    assert message in str(caught.value)


def test_the_command_prints_both_lines(tmp_path, capsys):
    """``plan`` says the range, its parts and whether the memory fits."""
    (tmp_path / "d.csv").write_text("a,b\n" + "".join(f"{n},{n % 7}\n" for n in range(2_000)))
    prices_in(tmp_path, PRICES.replace("8GB", "1GB"))
    command = ["plan", str(tmp_path / "d.csv"), "--prices", str(tmp_path / "prices.yaml")]
    assert run([*command, "--assume_bytes", "1TB"]) == 0
    *_, money, machine = capsys.readouterr().out.splitlines()
    assert money.startswith("  money      EUR ")
    assert ", requests " in money
    assert machine.endswith("of 1 GB: too little: take a machine with more memory for each core")
    assert run([*command, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["price"]["currency"] == "EUR"
