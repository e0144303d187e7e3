"""Patches of Beam's code for correctness, speed and memory.

Three are for correctness, the others for speed and memory. ``BEAM_PIPELINES_UNPATCHED=1`` in the
environment switches off those for speed and memory. Their figures are from docs/decisions.md, or
were measured with Beam 2.77 on 2 cores. The other patch, of the S3 client, is in
``storage/object_stores.py``, as ``storage`` opens files. Workers and the coder of the local runner
are registered (``local_workers.py``), and so patch nothing.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.abc
import importlib.machinery
import logging
import os
import sys
import types
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from beam_pipelines.core import memory
from beam_pipelines.storage.object_stores import UNPATCHED, share_s3_clients

_FILESYSTEM_FOR_SCHEME = {
    "azfs": "apache_beam.io.azure.blobstoragefilesystem",
    "gs": "apache_beam.io.gcp.gcsfilesystem",
    "s3": "apache_beam.io.aws.s3filesystem",
}
_LEFT_OUT = frozenset(
    [
        "absl",
        "apitools",
        "bson",
        "dill",
        "pandas",
        "pymongo",
        "apache_beam.io.gcp.bigquery",
        "apache_beam.io.gcp.gcsio",
        *_FILESYSTEM_FOR_SCHEME.values(),
        *(
            f"google.cloud.{name}"
            for name in (
                "bigquery",
                "bigquery_storage_v1",
                "bigtable",
                "dataflow",
                "datastore",
                "pubsub",
                "spanner",
            )
        ),
    ]
)
# Packages that Beam imports names of, and that a local run never calls: they check types of steps,
# encrypt keys, read Avro, and fetch files for a cluster.
_DEFERRED = frozenset(
    [
        "beartype",
        "beartype.door",
        "beartype.roar",
        "cryptography",
        "cryptography.fernet",
        "fastavro",
        "fastavro.read",
        "fastavro.write",
        "httplib2",
    ]
)
_SAMPLING_PERIOD_MS = 5


def is_unpatched() -> bool:
    """Whether the environment switches the patches for speed off."""
    return os.environ.get(UNPATCHED) == "1"


def names_runner(arguments: Sequence[str]) -> bool:
    """Whether a command's arguments name a ``--runner``."""
    return any(argument.startswith("--runner") for argument in arguments)


@contextlib.contextmanager
def size_based_flushes() -> Iterator[None]:
    """Switches off the flush timer of the local runner's data streams (correctness).

    With the timer and two workers or more, the runner loses elements silently: a flush waits for a
    full queue while the sender goes on writing, and then the buffer is cleared. In 26 of 29 runs
    780,000 to 999,687 of 1,000,000 elements arrived; without the timer all arrived, in 6 of 6.
    Worker processes have no timer unless the user asks for one; this is the side of the runner.

    Upstream: apache/beam#10246 introduced the timer; no upstream issue found.
    """
    from apache_beam.runners.portability.fn_api_runner import worker_handlers

    before = worker_handlers.DATA_BUFFER_TIME_LIMIT_MS
    worker_handlers.DATA_BUFFER_TIME_LIMIT_MS = 0
    try:
        yield
    finally:
        worker_handlers.DATA_BUFFER_TIME_LIMIT_MS = before


@contextlib.contextmanager
def plain_labels() -> Iterator[None]:
    """Keeps a notebook's cells out of the names of steps (correctness).

    In IPython, Beam asks its interactive runner for the number of the cell. That imports Beam's
    data frames, which fails with pandas 3: ``DataFrame`` has no ``first``. So no pipeline could be
    built there.
    """
    from apache_beam import pipeline

    with _replaced(pipeline, "alter_label_if_ipython", _keep_label):
        yield


def _keep_label(transform: Any, pvalueish: Any) -> None:
    """Leaves the label of a transform as it is."""


@contextlib.contextmanager
def silent_worker_threads() -> Iterator[None]:
    """Keeps worker threads of this process from printing tracebacks (output).

    The errors reach the user anyway, as those of the run. Silence is for good if the body fails or
    is interrupted: threads go on for some moments, and fail when temporary files are removed.

    Upstream: ``sdk_worker`` prints whatever the log level is; no upstream issue found.
    """
    from apache_beam.runners.worker import sdk_worker

    sdk_worker.print = lambda *_, **__: None  # the module's calls find this before the builtin
    yield
    del sdk_worker.print


class _MissingPackages:
    """A finder of modules that reports the left-out ones as missing.

    ``None`` in ``sys.modules`` would do for Beam; Arrow, compiled by Cython, takes it for pandas.
    """

    def find_spec(self, name: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        if name in _LEFT_OUT:
            raise ModuleNotFoundError(f"{name} is left out", name=name)
        if name in _DEFERRED:
            return importlib.machinery.ModuleSpec(name, _DeferredLoader(), is_package=True)
        return None


class _DeferredLoader(importlib.abc.Loader):
    """Makes placeholders of modules."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _DeferredModule(spec.name)

    def exec_module(self, _: types.ModuleType) -> None: ...


class _DeferredModule(types.ModuleType):
    """A placeholder of a module; has a placeholder of every name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Deferred(self.__name__, name)


class _Deferred:
    """A placeholder of a function or class, which the first call imports.

    From then on, modules of Beam have the real ones in place of all placeholders: an ``except``
    takes no placeholder of an exception.
    """

    def __init__(self, module: str, name: str) -> None:
        self._place = (module, name)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        for module in [module for name, module in sys.modules.items() if _is_of_beam(name)]:
            for name, value in list(vars(module).items()):
                if isinstance(value, _Deferred):
                    setattr(module, name, value._real())  # noqa: SLF001 - another of this class
        return self._real()(*arguments, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real(), name)

    def _real(self) -> Any:
        module, name = self._place
        return getattr(importlib.import_module(module), name)


def _is_of_beam(module: str) -> bool:
    return module.partition(".")[0] == "apache_beam"


def import_beam(arguments: Sequence[str]) -> None:
    """Imports Beam, for a local run without optional packages (speed).

    The packages are pandas, absl and dill, which Beam pickles some objects with, and clients of
    services. Beam runs without these packages, which are extras of its own. They are missing only
    during the import; later imports find them, and a filesystem of an object store is imported when
    a path asks for it. Beam cannot do without some others (``_DEFERRED``), so it gets placeholders,
    which import them when they are called. Arrow looks for pandas once, here; otherwise each worker
    would import it. CPU of the import: 0.4 s, where all of Beam takes 1.3 s.

    Upstream: apache/beam#37445 and #40178 make clients optional, but import those that are
    installed; no upstream issue found that makes the imports lazy.

    Args:
      arguments: of the command; one that names a ``--runner`` gets all of Beam.
    """
    if "apache_beam" in sys.modules or names_runner(arguments) or is_unpatched():
        return
    finder = _MissingPackages()
    sys.meta_path.insert(0, finder)
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)  # Beam warns of a database without its client
    try:
        importlib.import_module("apache_beam")
        importlib.import_module("pyarrow").array([0])
    finally:
        sys.meta_path.remove(finder)
        for name in _DEFERRED:
            if isinstance(sys.modules.get(name), _DeferredModule):
                del sys.modules[name]
        logging.disable(disabled)
    _import_filesystems_on_demand()


def _import_filesystems_on_demand() -> None:
    """Imports an object store's filesystem when Beam first looks for it.

    Beam does not find a filesystem whose client is not installed, as without the patch.
    """
    from apache_beam.io.filesystems import FileSystems

    find = FileSystems.get_filesystem

    def get_filesystem(path: str) -> Any:
        import_filesystem(FileSystems.get_scheme(path))
        return find(path)

    @functools.cache
    def import_filesystem(scheme: str | None) -> None:
        if scheme in _FILESYSTEM_FOR_SCHEME:
            with contextlib.suppress(ImportError):
                importlib.import_module(_FILESYSTEM_FOR_SCHEME[scheme])
                share_s3_clients()

    FileSystems.get_filesystem = staticmethod(get_filesystem)


def patch_command_process() -> None:
    """Applies the speed patches that forked workers share.

    Workers are forked off this process. The patches stay.
    """
    if not is_unpatched():
        _cache_arguments()
        _cache_dofn_specs()
        _sample_worker_state_often()


def _cache_arguments() -> None:
    """Inspects the arguments of a function once (speed).

    Beam inspects the methods of a DoFn for each DoFn, though most are those of the base class:
    3,600 inspections of a small conversion, where 200 remain, and a twentieth of its CPU time.

    Upstream: ``core.get_function_args_defaults`` caches nothing; no upstream issue found.
    """
    from apache_beam.transforms import core

    inspect = core.get_function_args_defaults
    known: weakref.WeakKeyDictionary[Any, tuple[Any, Any]] = weakref.WeakKeyDictionary()

    def get_function_args_defaults(function: Any) -> Any:
        # The arguments of a method are those of its function without the first.
        if not isinstance(function, types.MethodType):
            return inspect(function)
        if function.__func__ not in known:
            known[function.__func__] = inspect(function)
        names, defaults = known[function.__func__]
        return [*names], [*defaults]

    core.get_function_args_defaults = get_function_args_defaults


def _cache_dofn_specs() -> None:
    """Inspects a DoFn for state and timers once (speed).

    Beam inspects each DoFn four to six times in the launcher and in each worker: 344 inspections
    and 0.22 CPU s of a small conversion in one process, where 86 and 0.06 s remain.

    Upstream: ``userstate.get_dofn_specs`` caches nothing; no upstream issue found.
    """
    from apache_beam.transforms import userstate

    inspect = userstate.get_dofn_specs
    known: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    def get_dofn_specs(dofn: Any) -> Any:
        if dofn not in known:
            known[dofn] = inspect(dofn)
        return known[dofn]

    userstate.get_dofn_specs = get_dofn_specs


def _sample_worker_state_often() -> None:
    """Samples worker state every 5 ms, at no measurable cost (speed).

    A finished bundle waits until the sampling thread wakes. Beam's thread sleeps ever longer, up to
    200 ms: a twelfth of a bundle's time on average, 0.1 s if it took longer than a second.

    Upstream: apache/beam#5466 shortened the first sleeps; no upstream issue found for the rest.
    """
    from apache_beam.runners.worker.statesampler import StateSampler

    StateSampler.__init__.__defaults__ = (_SAMPLING_PERIOD_MS,)


@contextlib.contextmanager
def drop_idle_bundle_processors() -> Iterator[None]:
    """Frees the steps of a bundle when it ends (memory).

    This affects the workers of this process. Beam keeps the steps a minute for the next bundle of
    the stage, and with them the last element of each step: chunks of three stages, 200 MB a worker
    at ten million rows. The local runner gives each worker one bundle a stage. An engine may give
    threads of this process many, so this is for local runs only. Peak of all processes at ten
    million rows of CSV: 0.93 GB, 1.33 GB without.

    Upstream: apache/beam#10655 introduced the minute; no upstream issue found.
    """
    if is_unpatched():
        yield
        return
    from apache_beam.runners.worker.sdk_worker import BundleProcessorCache

    release = BundleProcessorCache.release

    def release_and_shut_down(cache: Any, instruction_id: str) -> None:
        release(cache, instruction_id)
        with cache._lock:  # noqa: SLF001 - only idle processors are cached
            idle = [
                processor
                for processors in cache.cached_bundle_processors.values()
                for processor in processors
            ]
            cache.cached_bundle_processors.clear()
        for processor in idle:
            processor.shutdown()
        memory.collect_garbage()  # steps refer to each other

    BundleProcessorCache.release = release_and_shut_down
    try:
        yield
    finally:
        BundleProcessorCache.release = release


@contextlib.contextmanager
def trust_steps() -> Iterator[None]:
    """Makes steps without checks of their functions (speed).

    When a step is made, Beam pickles and unpickles its function and arguments to find out whether
    it can, reads the function's source for ``yield`` next to ``return``, and notes the lines that
    made it. The job's pickles show what cannot travel, and tests the rest. CPU of a small
    conversion: 0.08 s of 1.0 s.

    Upstream: no option for it; no upstream issue found.
    """
    if is_unpatched():
        yield
        return
    from apache_beam.internal import pickler
    from apache_beam.transforms import core
    from apache_beam.typehints import decorators

    with (
        _replaced(pickler, "roundtrip", lambda value: value),
        _replaced(core, "_check_fn_use_yield_and_return", lambda _: False),
        _replaced(decorators, "TRACEBACK_LIMIT", -2),
    ):
        yield


class _Stored:
    """Stands for the module ``bz2`` and compresses nothing."""

    @staticmethod
    def compress(data: bytes, compresslevel: int) -> bytes:  # noqa: ARG004
        return data

    @staticmethod
    def decompress(data: bytes) -> bytes:
        return data


@contextlib.contextmanager
def plain_pickles() -> Iterator[None]:
    """Compresses no pickles of steps (speed).

    Workers are threads or forks of this process. Beam compresses each pickle by bz2, 0.4 ms for the
    least text: 0.03 of 1.0 s of CPU of a small conversion, 0.2 of 11 s of a million rows in two
    processes.

    Upstream: apache/beam has a comment on the choice of the compression; no upstream issue found.
    """
    if is_unpatched():
        yield
        return
    from apache_beam.internal import cloudpickle_pickler

    with _replaced(cloudpickle_pickler, "bz2", _Stored):
        yield


@contextlib.contextmanager
def _replaced(module: types.ModuleType, name: str, value: Any) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


@contextlib.contextmanager
def cache_option_views() -> Iterator[None]:
    """Parses the options of each of Beam's option classes once (speed).

    Beam parses them 240 times for a small job: 0.12 CPU s, where 0.01 s remain.

    Upstream: apache/beam#26034 asks for options that are parsed once.
    """
    if is_unpatched():
        yield
        return
    from apache_beam.options.pipeline_options import PipelineOptions

    view_as = PipelineOptions.view_as
    views: dict[tuple[int, type], Any] = {}
    kept = []  # so that no identity is used again

    def view(options: Any, cls: type) -> Any:
        key = (id(options._all_options), cls)  # noqa: SLF001 - shared by all views of the options
        if key not in views:
            kept.append(options)
            views[key] = view_as(options, cls)
        return views[key]

    PipelineOptions.view_as = view
    try:
        yield
    finally:
        PipelineOptions.view_as = view_as
