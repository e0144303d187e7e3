"""A command skips unused parts of Beam; Beam's results stay the same."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.internal import pickler
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions
from apache_beam.transforms import core, userstate
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

from beam_pipelines.runners import beam_patches
from tests.support.contents import TIMED, contents


def run(code: str) -> str:
    """Runs code in its own process, and returns its output."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


def test_what_is_left_out_can_be_imported_afterwards() -> None:
    """Modules that the patches skip can be imported afterwards.

    Beam is imported whole without pandas, clients of services and filesystems of object stores.
    Stand-ins become what they stand for when one of them is called, exceptions too.
    """
    code = """
import sys
from beam_pipelines.runners import beam_import, beam_patches
beam_import.import_beam([])
import pyarrow
pyarrow.array([1.5])
from beam_pipelines.files.beam import files
absent = ["pandas", "absl", "dill", "google.cloud.pubsub", "google.cloud.storage", "boto3"]
for left_out in [*absent, "beartype", "cryptography", "fastavro", "httplib2"]:
    print(any(name == left_out or name.startswith(left_out + ".") for name in sys.modules))
from apache_beam.typehints.typehints import is_consistent_with
print(*(is_consistent_with(bool, other) for other in (int, str, 3)))
from apache_beam.io.filesystems import FileSystems
for path in ("gs://bucket/file", "s3://bucket/file"):
    print(type(FileSystems.get_filesystem(path)).__name__)
import pandas, google.cloud.pubsub
print(pandas.Series([1, 2]).sum())
"""
    found = "True False False", "GCSFileSystem", "S3FileSystem", "3"
    assert run(code).splitlines() == [*["False"] * 10, *found]


@pytest.mark.parametrize("arguments", [["--runner", "DataflowRunner"], ["--runner=FlinkRunner"]])
def test_another_runner_gets_all_of_beam(arguments: list[str]) -> None:
    """Nothing is left out where a runner is named."""
    code = "import sys\nfrom beam_pipelines.runners.beam_import import import_beam\n"
    assert run(f"{code}import_beam({arguments})\nprint('apache_beam' in sys.modules)") == "False\n"


class _Stateful(beam.DoFn):
    """Has state."""

    COUNT = ReadModifyWriteStateSpec("count", VarIntCoder())

    def process(self, element: int, count: object = beam.DoFn.StateParam(COUNT)) -> None:  # type: ignore[override]
        """Does nothing."""


class _Stateless(beam.DoFn):
    """Has none."""

    def process(self, element: int) -> None:
        """Does nothing."""


def test_dofns_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each class is looked at once, and an object with own methods."""
    looked = []
    look = userstate.get_dofn_specs
    expected = look(_Stateful())

    def count(dofn: beam.DoFn) -> object:
        looked.append(type(dofn))
        return look(dofn)

    monkeypatch.setattr(userstate, "get_dofn_specs", count)
    beam_patches._cache_dofn_specs()
    own = _Stateless()
    vars(own)["method"] = _Stateful().process
    for _ in range(3):
        assert userstate.get_dofn_specs(_Stateful()) == expected
        assert userstate.is_stateful_dofn(_Stateful())
        assert not userstate.is_stateful_dofn(_Stateless())
        assert userstate.is_stateful_dofn(own)
    assert looked == [_Stateful, _Stateless, _Stateless]


def test_patches_of_a_process_are_applied_once() -> None:
    """A process that runs many commands has one layer of patches."""
    beam_patches.patch_command_process()
    patched = userstate.get_dofn_specs, core.get_function_args_defaults
    beam_patches.patch_command_process()
    assert patched == (userstate.get_dofn_specs, core.get_function_args_defaults)


def test_arguments_of_methods_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that is several methods is inspected once."""
    looked = []
    look = core.get_function_args_defaults

    def count(function: Callable[..., object]) -> object:
        looked.append(function.__name__)
        return look(function)

    monkeypatch.setattr(core, "get_function_args_defaults", count)
    beam_patches._cache_arguments()
    for dofn in (_Stateful(), _Stateless(), _Stateful()):
        for method in (dofn.process, dofn.setup, type(dofn).process):
            names, defaults = core.get_function_args_defaults(method)
            assert (names, defaults) == look(method)
            names.append("changed")
    assert looked == ["process", "setup", "process", "process", "process", "process"]


def test_elements_are_not_pickled_to_be_measured() -> None:
    """An element is pickled only when it has to travel.

    A failure of pickling does not show before, and a travelling element stays the same.
    """
    code = """
from beam_pipelines.runners import beam_import, beam_patches
beam_import.import_beam([])
from beam_pipelines.runners import local_workers
local_workers.register_unmeasured_coder()
import apache_beam as beam
from apache_beam.coders import coders
from apache_beam.typehints import Any
class Unpicklable:
    def __reduce__(self):
        raise RuntimeError("pickled")
value = beam.utils.windowed_value.WindowedValue(Unpicklable(), 0, ())
for hint in (Any, Unpicklable):
    coder = beam.coders.registry.get_coder(hint)
    windowed = coders.WindowedValueCoder(coder).get_impl()
    print(windowed.get_estimated_size_and_observables(value)[1])
    print(coder.decode(coder.encode([1, "a", {2: None}])))
"""
    assert run(code).split("\n") == [*["[]", "[1, 'a', {2: None}]"] * 2, ""]


def test_bundles_end_when_their_work_is_done() -> None:
    """The thread at a bundle's end sleeps at most 5 ms.

    The bundle waits for it.

    Beam's own thread sleeps up to 200 ms.
    """
    code = """
from beam_pipelines.runners import beam_import, beam_patches
beam_import.import_beam([])
from apache_beam.runners.worker.statesampler import StateSampler
from apache_beam.utils.counters import CounterFactory
print(StateSampler("before", CounterFactory()).sampling_period_ms)
beam_patches._sample_worker_state_often()
sampler = StateSampler("after", CounterFactory())
print(sampler.sampling_period_ms)
sampler.start()
sampler.stop()
"""
    assert run(code).split() == ["200", "5"]


@pytest.mark.parametrize("forgets", [False, True])
def test_a_stage_leaves_no_element_behind(forgets: bool) -> None:
    """A stage's elements are gone in the next stage.

    Beam itself keeps the last element of each of its steps.
    """
    code = f"""
import builtins, contextlib, weakref
from beam_pipelines.core.arrow import memory
from beam_pipelines.runners import beam_import, beam_patches
memory.pause_garbage_collection()
beam_import.import_beam([])
memory.resume_garbage_collection()
import apache_beam as beam
import pyarrow as pa
class Element:
    def __init__(self):
        self.batch = pa.allocate_buffer(20 << 20)
builtins.made = []
def make(_):
    element = Element()
    builtins.made.append(weakref.ref(element))
    return element
def look(_):
    print([element() is None for element in builtins.made])
with beam_patches.applied(beam_patches.drop_idle_bundle_processors) if {forgets} else contextlib.nullcontext(), beam.Pipeline("FnApiRunner") as pipeline:
    made = pipeline | beam.Create([0]) | beam.Map(make) | beam.Map(lambda element, other: other, 1)
    made | beam.Reshuffle() | beam.Map(look)
"""
    assert run(code) == f"[{forgets}]\n"


def test_steps_are_not_pickled_when_they_are_made() -> None:
    """A step that cannot travel fails when its job is sent."""
    stays = (number for number in range(3))
    with pytest.raises(RuntimeError, match="pickle"):
        beam.Map(lambda _: stays)
    with beam_patches.applied(beam_patches.trust_steps):
        step = beam.Map(lambda _: stays)
        with (
            pytest.raises(Exception, match="Unable to translate"),
            beam.Pipeline("FnApiRunner") as pipeline,
        ):
            pipeline | beam.Create([0]) | step
    with pytest.raises(RuntimeError, match="pickle"):
        beam.Map(lambda _: stays)


def test_plain_pickles_are_read_where_they_are_made() -> None:
    """Steps without compression become what they were; afterwards Beam compresses again."""
    value = {"a": [1, 2, 3], "b": int}
    compressed = pickler.dumps(value)
    with beam_patches.applied(beam_patches.plain_pickles):
        plain = pickler.dumps(value)
        assert pickler.loads(plain) == value
    assert plain != compressed == pickler.dumps(value)


def test_views_of_options_share_what_is_set() -> None:
    """A reused view of options shows values that another view has set.

    Values of different options are not mixed up.
    """
    options, other = PipelineOptions(["--direct_num_workers=3"]), PipelineOptions([])
    with beam_patches.applied(beam_patches.cache_option_views):
        view = options.view_as(DirectOptions)
        assert view.direct_num_workers == 3
        options.view_as(StandardOptions).view_as(DirectOptions).direct_num_workers = 4
        assert view.direct_num_workers == 4
        assert options.view_as(DirectOptions) is view
        assert other.view_as(DirectOptions).direct_num_workers == 1
    assert options.view_as(DirectOptions) is not options.view_as(DirectOptions)


@pytest.mark.end_to_end
def test_a_program_writes_the_bytes_of_the_command(tmp_path: Path) -> None:
    """Without the patches of the command's process, the files are the same."""
    rows = "".join(f"{row % 600},{row * 37 % 1009}.5\n" for row in range(20_000))
    (tmp_path / "clicks.csv").write_text(f"user,price\n{rows}")
    (tmp_path / "recipe.yaml").write_text(
        "name: clicks\nsources: {clicks: clicks.csv}\nencode: {price: z_score, user: vocabulary}\n"
    )
    options = ["--direct_num_workers=2"]
    program = (
        f"import beam_pipelines as bp\nbp.convert('recipe.yaml', 'other', beam_options={options})"
    )
    command = ["-m", "beam_pipelines", "convert", "recipe.yaml", "-o", "patched", "-q", *options]
    for arguments in (command, ["-c", program]):
        subprocess.run([sys.executable, *arguments], cwd=tmp_path, check=True)
    found = contents(tmp_path / "patched", TIMED)
    assert sum(name.startswith("examples/") for name in found) >= 1
    assert found == contents(tmp_path / "other", TIMED)
