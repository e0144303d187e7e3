"""Spares a command what Beam does for others: clients of services that a local run never calls, and
looking at the same thing many times.

Imports of pandas and of clients of databases, of Pub/Sub and of Dataflow, and the same questions
about the same functions and options, took a fifth of the time of a conversion of a small table
(docs/decisions.md). Beam runs without these packages, which are extras of its own. They are left
out only while Beam is imported: whoever imports them later gets them. Arrow alone does without
pandas for good, as nothing here becomes a data frame.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.machinery
import logging
import sys
import types
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from beam_pipelines.core.storage_schemes import FILESYSTEM_FOR_SCHEME

_LEFT_OUT = frozenset(
    [
        "pandas",
        "apitools",
        "bson",
        "pymongo",
        "apache_beam.io.gcp.bigquery",
        "apache_beam.io.gcp.gcsio",
        *FILESYSTEM_FOR_SCHEME.values(),
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

# Whose functions and classes Beam takes, and in a local run of ours does not call: HTTP (for
# packages of dependencies), Avro, HMACs of keys, and what a type hint is to another, as our hints
# are texts to Beam.
_LATER = (
    *("httplib2", "cryptography.fernet", "fastavro", "fastavro.read", "fastavro.write"),
    *("beartype", "beartype.door", "beartype.roar"),
)

_LOOKS_EVERY_MS = 5


class _LeavesOut:
    """A finder of modules that finds some of them missing."""

    def find_spec(self, name: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        if name in _LEFT_OUT:
            raise ModuleNotFoundError(f"{name} is left out", name=name)
        return None


class _Later(types.ModuleType):
    """Stands for a module while Beam is imported, and for what Beam takes from it: whatever that is
    called.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _LazyAttribute(self.__name__, name)


class _LazyAttribute:
    """Stands for a function or a class; called, it imports everything that Beam was not given, and
    is called for.
    """

    def __init__(self, module: str, name: str) -> None:
        self._place = module, name

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        for module in [
            module for name, module in sys.modules.items() if name.split(".")[0] == "apache_beam"
        ]:
            for name, value in list(vars(module).items()):
                if isinstance(value, _LazyAttribute):
                    setattr(module, name, value.found())
                elif isinstance(value, _Later):
                    setattr(module, name, importlib.import_module(value.__name__))
        return self.found()(*arguments, **named)

    def found(self) -> Any:
        """Returns what it stands for."""
        module, name = self._place
        return getattr(importlib.import_module(module), name)


def import_beam(arguments: Sequence[str]) -> None:
    """Imports Beam, for a local run without what it has no use for.

    Args:
      arguments: of the command; one that names a ``--runner`` gets all of Beam.
    """
    if "apache_beam" in sys.modules or any(
        argument.startswith("--runner") for argument in arguments
    ):
        return
    finder = _LeavesOut()
    sys.meta_path.insert(0, finder)
    later = {name: _Later(name) for name in _LATER if name not in sys.modules}
    sys.modules.update(later)
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)  # of a database that it cannot read without its client
    try:
        importlib.import_module("apache_beam")
        # Arrow looks for pandas once, and would import it in each worker.
        importlib.import_module("pyarrow").array([0])
    finally:
        sys.meta_path.remove(finder)
        for name in later:
            del sys.modules[name]
        logging.disable(disabled)


def import_without_garbage() -> None:
    """Keeps the garbage collector from looking, while modules are imported, at 100,000 objects that
    all stay.
    """
    gc.disable()


def collect_garbage() -> None:
    """Ends ``import_without_garbage``: the collector looks at what is made from now on, here and in
    what is forked off this process.
    """
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def remember_dofns() -> None:
    """Lets Beam look once for the state and timers of a DoFn, where it would six times in the
    launcher and in each worker.

    For good, as workers that are forked off this process do the same.
    """
    from apache_beam.transforms import userstate

    look = userstate.get_dofn_specs
    known: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    def get_dofn_specs(dofn: Any) -> Any:
        if dofn not in known:
            known[dofn] = look(dofn)
        return known[dofn]

    userstate.get_dofn_specs = get_dofn_specs


def leave_elements_unmeasured() -> None:
    """Lets Beam take every element for a small one, where it pickles whole chunks to tell how large
    they are, for metrics that nobody sees.

    For good, as ``remember_dofns``.
    """
    from apache_beam.coders import coder_impl, coders

    class Unmeasured(coder_impl.FastPrimitivesCoderImpl):
        def get_estimated_size_and_observables(
            self,
            value: Any,  # noqa: ARG002
            nested: bool = False,  # noqa: ARG002
        ) -> tuple[int, list[Any]]:
            return 1, []

    coders.FastPrimitivesCoder._create_impl = lambda self: Unmeasured(  # noqa: SLF001
        self._fallback_coder.get_impl()
    )


def sample_worker_state_often() -> None:
    """Lets a bundle end when its work is done, where Beam then waits for a thread that looks at
    what it does, for metrics, and sleeps up to 200 ms between two looks.

    For good, as ``remember_dofns``.
    """
    from apache_beam.runners.worker.statesampler import StateSampler

    StateSampler.__init__.__defaults__ = (_LOOKS_EVERY_MS,)


@contextlib.contextmanager
def bundles_forgotten() -> Iterator[None]:
    """Lets workers of this process forget what has run a bundle, while the body runs.

    Beam keeps it for a minute, for the next bundle of its stage, and with it the last element of
    each step: chunks of three stages. On the local runner a stage of ours has one bundle for each
    worker; of an engine that uses this process's threads it may have many.
    """
    from apache_beam.runners.worker.sdk_worker import BundleProcessorCache

    release = BundleProcessorCache.release

    def release_and_forget(cache: Any, instruction_id: str) -> None:
        release(cache, instruction_id)
        with cache._lock:  # noqa: SLF001 - only what runs nothing is in there
            used = [
                processor
                for processors in cache.cached_bundle_processors.values()
                for processor in processors
            ]
            cache.cached_bundle_processors.clear()
        for processor in used:
            processor.shutdown()
        if gc.get_freeze_count():  # only what is new is looked at, in milliseconds
            gc.collect()  # steps know each other

    BundleProcessorCache.release = release_and_forget
    try:
        yield
    finally:
        BundleProcessorCache.release = release


@contextlib.contextmanager
def options_parsed_once() -> Iterator[None]:
    """Lets Beam parse the options of each of its classes once, while the body runs, where it would
    280 times for one job.
    """
    from apache_beam.options.pipeline_options import PipelineOptions

    view_as = PipelineOptions.view_as
    views: dict[tuple[int, type], Any] = {}
    kept = []  # so that no identity is used again

    def view(options: Any, cls: type) -> Any:
        key = (id(options._all_options), cls)  # noqa: SLF001 - what all views of the same options share
        if key not in views:
            kept.append(options)
            views[key] = view_as(options, cls)
        return views[key]

    PipelineOptions.view_as = view
    try:
        yield
    finally:
        PipelineOptions.view_as = view_as
