"""TensorFlow costs a worker seconds and 650 MB: no module of the package loads it."""

from __future__ import annotations

import json
import subprocess
import sys

IMPORT_EVERYTHING = """
import importlib, json, pkgutil, sys
import beam_pipelines
names = [module.name for module in pkgutil.walk_packages(beam_pipelines.__path__, "beam_pipelines.")]
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
heavy = ("tensorflow", "tensorflow_transform", "keras", "tf_keras", "tfx_bsl.public.tfxio")
print(json.dumps({"imported": names, "heavy": [name for name in heavy if name in sys.modules]}))
"""


def test_importing_every_module_loads_no_tensorflow(repository):
    """A process that imports the whole package, as a worker may, has loaded neither TensorFlow nor what brings it along."""
    run = subprocess.run([sys.executable, "-c", IMPORT_EVERYTHING], cwd=repository, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout.splitlines()[-1])
    assert len(result["imported"]) > 20
    assert result["heavy"] == []
