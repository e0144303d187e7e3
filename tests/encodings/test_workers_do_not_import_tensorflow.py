"""No module of the package loads TensorFlow.

It would cost a worker seconds and 650 MB.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.end_to_end

IMPORT_EVERYTHING = """
import importlib, json, pkgutil, sys
import beam_pipelines
names = [module.name for module in pkgutil.walk_packages(beam_pipelines.__path__, "beam_pipelines.")]
for name in names:
    # TFX and Keras load TensorFlow themselves, and an adapter loads its package; neither runs in a worker.
    if not name.endswith("__main__") and "tfx" not in name and ".adapters." not in name:
        importlib.import_module(name)
heavy = ("tensorflow", "tensorflow_transform", "keras", "tf_keras", "tfx_bsl.public.tfxio")
print(json.dumps({"imported": names, "heavy": [name for name in heavy if name in sys.modules]}))
"""


def test_importing_every_module_loads_no_tensorflow(repository):
    """Importing the whole package loads neither TensorFlow nor its companions."""
    run = subprocess.run(
        [sys.executable, "-c", IMPORT_EVERYTHING], cwd=repository, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout.splitlines()[-1])
    assert len(result["imported"]) > 20
    assert result["heavy"] == []


CONVERT = """
import sys
from beam_pipelines.cli.main import run
status = run(sys.argv[1:])
print(status, [name for name in ("tensorflow", "tensorflow_transform") if name in sys.modules])
"""


def test_converting_with_encodings_loads_no_tensorflow(tmp_path, repository):
    """One worker fits and applies encodings and builds the graph without TensorFlow."""
    (tmp_path / "rows.csv").write_text("x,t\n1,a\n2,b\n3,a\n")
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        "name: rows\nsources: {rows: rows.csv}\nencode: {x: z_score, t: vocabulary}\n"
        "output: {serving: true}\n"
    )
    command = [
        sys.executable,
        "-c",
        CONVERT,
        "convert",
        str(recipe),
        "--output",
        str(tmp_path / "out"),
        "--quiet",
    ]
    run = subprocess.run(command, cwd=repository, capture_output=True, text=True)
    assert run.stdout.strip() == "0 []", run.stderr
    assert (tmp_path / "out" / "transform_graph" / "transform_fn" / "saved_model.pb").exists()
