"""The examples that train on the flights with PyTorch and JAX.

Killed between two checkpoints and resumed, they train the model of a run that was not.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest

from tests.support.few_flights import convert, write_fewer_flights

pytestmark = [pytest.mark.adapters, pytest.mark.slow]

STEP = re.compile(r"^step (\d+) of \d+, loss ([0-9.]+)$", re.MULTILINE)
AUC = re.compile(r"^on eval: AUC ([0-9.]+) of ([0-9,]+) rows$", re.MULTILINE)
OPTIONS = ["--epochs=2", "--batch_size=512", "--save_every=20"]
# A batch of the second epoch, not the first behind a checkpoint.
KILLED_AT = 70
# Runs an example, and kills it once as it asks for a batch.
KILLER = """
import os, pathlib, runpy, signal, sys
from beam_pipelines.reader.reader import Reader

rank, number, marker, example = sys.argv[1:5]
sys.argv[:] = sys.argv[4:]
sys.path.insert(0, os.path.dirname(example))
read, asked = Reader.__next__, 0

def killed(reader):
    global asked
    asked += 1
    if asked == int(number) and os.environ.get("RANK", "0") == rank:
        if not os.path.exists(marker):
            pathlib.Path(marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
    return read(reader)

Reader.__next__ = killed
runpy.run_path(example, run_name="__main__")
"""


class Run(NamedTuple):
    """A finished run of an example.

    Attributes:
      status: of the exit.
      steps: number of a step -> its loss, as printed.
      auc: on ``eval``.
      output: folder of the model.
      text: all that was printed.
    """

    status: int
    steps: dict[int, str]
    auc: float | None
    output: pathlib.Path
    text: str


@pytest.fixture(scope="module")
def flights(repository, flights_data, tmp_path_factory):
    """A tenth of the flights, encoded."""
    folder = tmp_path_factory.mktemp("flights")
    write_fewer_flights(flights_data, folder / "data")
    convert(repository, folder, "encoded.yaml", "encoded")
    return folder / "encoded"


@pytest.fixture(scope="module")
def train(repository, flights, tmp_path_factory):
    """Returns a function that runs an example, and may kill it."""
    killer = tmp_path_factory.mktemp("killer") / "killer.py"
    killer.write_text(KILLER)

    def run(name, output, *launcher, killed_rank=None, **environment):
        script = [str(repository / "examples" / name), str(flights)]
        if killed_rank is not None:
            marker = str(output) + ".killed"
            script = [str(killer), str(killed_rank), str(KILLED_AT), marker, *script]
        command = [sys.executable, *launcher, *script, f"--output={output}", *OPTIONS]
        done = subprocess.run(
            command, capture_output=True, text=True, env=os.environ | environment, check=False
        )
        found = AUC.findall(done.stdout)
        return Run(
            done.returncode,
            {int(step): loss for step, loss in STEP.findall(done.stdout)},
            float(found[-1][0]) if found else None,
            output,
            done.stdout + done.stderr,
        )

    return run


def torchrun(restarts):
    """Returns the arguments of Python that start two processes."""
    options = ["--standalone", "--nproc_per_node=2", f"--max_restarts={restarts}"]
    return ["-m", "torch.distributed.run", *options]


NEW_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


@pytest.fixture(scope="module")
def torch_run(train, tmp_path_factory):
    """Two processes train with PyTorch, without an interruption."""
    pytest.importorskip("torch")
    run = train("train_flights_torch.py", tmp_path_factory.mktemp("torch"), *torchrun(0))
    assert run.status == 0, run.text
    return run


def weights_of(run):
    """Returns the arrays of a model, by name."""
    path = run.output / "model.npz"
    if path.exists():
        arrays = np.load(path)
        return {name: arrays[name] for name in arrays.files}
    import torch

    return {
        name: values.numpy()
        for name, values in torch.load(run.output / "model.pt", weights_only=True).items()
    }


def assert_equal(run, whole, tolerance=0.0):
    """Compares losses, model and score with those of a whole run."""
    assert run.status == 0, run.text
    assert run.auc == pytest.approx(whole.auc, abs=tolerance)
    for step, loss in run.steps.items():
        assert float(loss) == pytest.approx(float(whole.steps[step]), abs=tolerance)
    assert max(run.steps, default=0) == max(whole.steps, default=0)
    expected = weights_of(whole)
    for name, values in weights_of(run).items():
        np.testing.assert_allclose(values, expected[name], rtol=0, atol=tolerance)
    assert not list(run.output.glob("checkpoint*"))


def test_torch_learns(torch_run):
    """The model is better than chance on days that were held back."""
    assert torch_run.auc > 0.8
    assert "waited for batches: " in torch_run.text
    assert float(torch_run.steps[80]) < float(torch_run.steps[20])


def test_torch_rank_is_killed(train, torch_run, tmp_path):
    """A killed process and torchrun's restart lead to the same model."""
    run = train("train_flights_torch.py", tmp_path, *torchrun(1), killed_rank=1, **NEW_STORE)
    assert "goes on after step 60" in run.text
    assert run.steps == torch_run.steps
    assert_equal(run, torch_run)


@pytest.fixture(scope="module")
def jax_run(train, tmp_path_factory):
    """One device trains with JAX, without an interruption."""
    pytest.importorskip("jax")
    run = train("train_flights_jax.py", tmp_path_factory.mktemp("jax"))
    assert run.status == 0, run.text
    assert run.auc > 0.8
    return run


def test_jax_on_two_devices(train, jax_run, tmp_path):
    """Two devices that share each batch, killed, go on as one."""
    two = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    killed = train("train_flights_jax.py", tmp_path, killed_rank=0, **two)
    assert set(killed.steps) == {20, 40, 60}
    for step, loss in killed.steps.items():
        assert float(loss) == pytest.approx(float(jax_run.steps[step]), abs=1e-4)
    assert_equal(train("train_flights_jax.py", tmp_path), jax_run, 1e-3)


@pytest.mark.parametrize(
    ("name", "package"), [("train_flights_torch", "torch"), ("train_flights_jax", "jax")]
)
def test_dataset_without_encodings(repository, folder, tmp_path, name, package):
    """A dataset that no model can take ends in one line."""
    pytest.importorskip(package)
    command = [sys.executable, repository / "examples" / f"{name}.py", folder]
    run = subprocess.run([*command, "--output", tmp_path], capture_output=True, text=True)
    assert run.returncode == 1
    assert re.fullmatch(rf"error: {folder}: found no \w+ .*, expected .*\n", run.stderr), run.stderr
