"""Processes import few modules, which take time and memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.reader.indexed import finish
from tests.support import encoder_dataset
from tests.support.small_dataset import write_dataset

TENSORFLOW = {"tensorflow", "tensorflow_transform", "tfx_bsl", "keras", "tf_keras"}
BEAM = {"apache_beam"}
SLOW = {
    *("pandas", "pyarrow.compute", "pyarrow.dataset", "duckdb", "torch", "jax", "PIL.Image"),
    *("simplejpeg", "numpy.testing"),
    # These, too, if numpy and pyarrow have not: each takes 5 to 100 ms of the first batch's time.
    *("numpy.ma", "typing_extensions", "http.client", "shutil", "hashlib", "difflib"),
}
pytestmark = pytest.mark.end_to_end

# Name -> a program with folders of a small and of an encoded dataset, and what it does not import.
PROGRAMS = {
    "the package": ("import beam_pipelines", {*BEAM, *TENSORFLOW, "numpy", "pyarrow"}),
    "each public name": (
        ("import beam_pipelines as bp\n"
        "assert set(dir(bp)) == set(bp.__all__)\n"
        "assert all(getattr(bp, name) is not None for name in bp.__all__)"),
        TENSORFLOW - {"tfx_bsl"},
    ),
    "help and version": (
        ("from beam_pipelines.cli import main\n"
        "for line in (['convert', '--help'], ['--version'], ['--help']):\n"
        "    assert main.run(line) == 0"),
        {*BEAM, *TENSORFLOW, "pyarrow"},
    ),
    "a preview": (
        ("from beam_pipelines.cli.main import run\n"
        "import pathlib\n"
        "pathlib.Path('d.csv').write_text('x,t\\n1,a\\n2,b\\n')\n"
        "assert run(['preview', 'd.csv']) == 0"),
        {f"beam_pipelines.{name}" for name in ("pipeline.convert", "pipeline.commit", "dataset", "reader", "runners.run")},
    ),
    "every module": (
        # TFX and Keras load TensorFlow, an adapter its package, and pictures on a device PyTorch.
        ("import importlib, pkgutil, beam_pipelines\n"
        "for one in pkgutil.walk_packages(beam_pipelines.__path__, 'beam_pipelines.'):\n"
        "    if not any(part in one.name for part in ('__main__', 'tfx', '.adapters.', 'device_images')):\n"
        "        importlib.import_module(one.name)"),
        {*TENSORFLOW - {"tfx_bsl"}, "tfx_bsl.public.tfxio"},
    ),
    "a conversion": (
        ("from beam_pipelines.cli.main import run\n"
        "import pathlib\n"
        "pathlib.Path('d.csv').write_text('x,t\\n1,a\\n2,b\\n3,a\\n')\n"
        "pathlib.Path('r.yaml').write_text('name: d\\nsources: {d: d.csv}\\n'\n"
        "    'encode: {x: z_score, t: vocabulary}\\noutput: {serving: true}\\n')\n"
        "assert run(['convert', 'r.yaml', '-o', 'out', '-q']) == 0\n"
        "assert list(pathlib.Path('out').rglob('saved_model.pb'))"),
        {"tensorflow", "tensorflow_transform", "beartype", "pyparsing", "cryptography", "fastavro", "beam_pipelines.reader.dataset"},
    ),
    "reading": (
        ("import beam_pipelines as bp\n"
        "with bp.open(SMALL).batches('train', 64, fill={'half': 0}) as reader:\n"
        "    assert sum(len(batch['id']) for batch in reader) == 50"),
        {*BEAM, *TENSORFLOW, *SLOW},
    ),
    "adapters": (
        ("from beam_pipelines.adapters.source import Portion, ReaderSource\n"
        "assert sum(len(one['id']) for one in Portion(ReaderSource(SMALL, None, {}), 0)) == 50"),
        {*BEAM, *TENSORFLOW, "torch"},
    ),
    "inspecting": (
        ("from beam_pipelines.dataset.inspect import inspect_examples\n"
        "assert len(list(inspect_examples(SMALL, 2))) == 2"),
        {"tensorflow", "tensorflow_transform"},
    ),
    "features": (
        "import beam_pipelines as bp\nassert bp.open(ENCODED).features",
        {*BEAM, *TENSORFLOW},
    ),
    "encoding": (
        ("import beam_pipelines as bp\n"
        "found = bp.open(ENCODED).encoder(['m_normal', 't'])({'m': 1, 't': 'to'})\n"
        "assert found['t'].values.dtype == 'int64'"),
        {*BEAM, *TENSORFLOW, "duckdb"},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Lines of Python that name the datasets."""
    small = finish(write_dataset(tmp_path_factory.mktemp("small")))
    encoded = encoder_dataset.convert(tmp_path_factory.mktemp("encoded"))
    return f"SMALL, ENCODED = {small!r}, {encoded!r}"


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_imports_little(name: str, folders: str, tmp_path: Path) -> None:
    """None of the modules is imported.

    Slow ones may be, if numpy, pyarrow and TensorFlow's metadata import them.
    """
    program, unwanted = PROGRAMS[name]
    own = "import numpy, pyarrow, tensorflow_metadata.proto.v0.schema_pb2\n"
    code = f"import sys\n{own if unwanted >= SLOW else ''}own = set(sys.modules)\n{folders}\n{program}\n"
    code += f"print('imported', *sorted(({unwanted!r} & set(sys.modules)) - own))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "imported"
