"""Patches of Beam's code for correctness, speed and memory.

One is for correctness, the others for speed and memory. Their figures are from docs/decisions.md,
or were measured with Beam 2.77 on 2 cores. The other patch, of the S3 client, is in
``files/beam/cloud_access.py``, as ``files`` opens files. Workers and the coder of the local runner
are registered (``local_workers.py``), which also replaces Beam's servers of our workers.
"""

from __future__ import annotations

import bz2
import contextlib
import functools
import types
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from beam_pipelines.core.arrow import memory

# What a run of ours changes in Beam -> what the patch notes of the run. A patch stays for the life
# of the process, and acts only in the thread that builds and runs the job: runs in other threads,
# and other pipelines of the program, are as without.
_active: ContextVar[Mapping[Callable[[], None], dict[Any, Any]]] = ContextVar(
    "_active", default=types.MappingProxyType({})
)


@contextlib.contextmanager
def applied(*patches: Callable[[], None]) -> Iterator[None]:
    """Applies patches while the body runs, in this thread.

    Args:
      patches: functions of this module that say so.
    """
    for patch in patches:
        patch()
    token = _active.set({**{patch: {} for patch in patches}, **_active.get()})
    try:
        yield
    finally:
        _active.reset(token)


@functools.cache
def plain_labels() -> None:
    """Keeps a notebook's cells out of the names of steps (correctness).

    In IPython, Beam asks its interactive runner for the number of the cell. That imports Beam's
    data frames, which fails with pandas 3: ``DataFrame`` has no ``first``. So no pipeline could be
    built there.
    """
    from apache_beam import pipeline

    alter = pipeline.alter_label_if_ipython
    pipeline.alter_label_if_ipython = lambda *arguments: (
        None if plain_labels in _active.get() else alter(*arguments)
    )


@functools.cache
def patch_command_process() -> None:
    """Applies the speed patches that forked workers share.

    Workers are forked off this process. The patches stay, and are applied once.
    """
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
    """Inspects each class of DoFns for state and timers once (speed).

    Beam inspects each DoFn four to six times in the launcher and in each worker: 344 inspections
    and 0.22 CPU s of a small conversion in one process, where 7 and 0.01 s remain.

    Upstream: ``userstate.get_dofn_specs`` caches nothing; no upstream issue found.
    """
    from apache_beam.transforms import userstate

    inspect = userstate.get_dofn_specs
    known: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    def get_dofn_specs(dofn: Any) -> Any:
        # A step may have methods that its class has not.
        has_own = any(isinstance(own, types.MethodType) for own in vars(dofn).values())
        key = dofn if has_own else type(dofn)
        if key not in known:
            known[key] = inspect(dofn)
        return known[key]

    userstate.get_dofn_specs = get_dofn_specs


def _sample_worker_state_often() -> None:
    """Samples worker state every 5 ms, at no measurable cost (speed).

    A finished bundle waits until the sampling thread wakes. Beam's thread sleeps ever longer, up to
    200 ms: a twelfth of a bundle's time on average, 0.1 s if it took longer than a second.

    Upstream: apache/beam#5466 shortened the first sleeps; no upstream issue found for the rest.
    """
    from apache_beam.runners.worker.statesampler import StateSampler

    StateSampler.__init__.__defaults__ = (5,)  # milliseconds


@functools.cache
def drop_idle_bundle_processors() -> None:
    """Frees the steps of a bundle when it ends (memory).

    This affects the workers of this process. Beam keeps the steps a minute for the next bundle of
    the stage, and with them the last element of each step: chunks of three stages, 200 MB a worker
    at ten million rows. The local runner gives each worker one bundle a stage. An engine may give
    threads of this process many, so this is for local runs only. Peak of all processes at ten
    million rows of CSV: 0.93 GB, 1.33 GB without.

    Upstream: apache/beam#10655 introduced the minute; no upstream issue found.
    """
    from apache_beam.runners.worker.sdk_worker import BundleProcessorCache

    make, release = BundleProcessorCache.__init__, BundleProcessorCache.release

    def note_run(cache: Any, *arguments: Any, **named: Any) -> None:
        make(cache, *arguments, **named)
        cache.drops_processors = drop_idle_bundle_processors in _active.get()

    def release_and_shut_down(cache: Any, instruction_id: str) -> None:
        release(cache, instruction_id)
        if not cache.drops_processors:
            return
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

    BundleProcessorCache.__init__ = note_run
    BundleProcessorCache.release = release_and_shut_down


@functools.cache
def trust_steps() -> None:
    """Makes steps without checks of their functions (speed).

    When a step is made, Beam pickles and unpickles its function and arguments to find out whether
    it can, reads the function's source for ``yield`` next to ``return``, and notes the lines that
    made it. The job's pickles show what cannot travel, and tests the rest. CPU of a small
    conversion: 0.08 s of 1.0 s.

    Upstream: no option for it; no upstream issue found.
    """
    from apache_beam.internal import pickler
    from apache_beam.transforms import core
    from apache_beam.typehints.decorators import IOTypeHints

    roundtrip, check = pickler.roundtrip, core._check_fn_use_yield_and_return  # noqa: SLF001
    make_origin = IOTypeHints._make_origin.__func__  # noqa: SLF001

    def make_shorter_origin(cls: Any, bases: Any, tb: bool = True, msg: Any = ()) -> Any:
        return make_origin(cls, bases, tb and trust_steps not in _active.get(), msg)

    pickler.roundtrip = lambda value: value if trust_steps in _active.get() else roundtrip(value)
    core._check_fn_use_yield_and_return = lambda function: (  # noqa: SLF001
        False if trust_steps in _active.get() else check(function)
    )
    IOTypeHints._make_origin = classmethod(make_shorter_origin)  # noqa: SLF001


class _Pickles:
    """Stands for the module ``bz2``.

    Leaves pickles as they are where a run of ours makes them.
    """

    @staticmethod
    def compress(data: bytes, compresslevel: int = 9) -> bytes:
        return data if plain_pickles in _active.get() else bz2.compress(data, compresslevel)

    @staticmethod
    def decompress(data: bytes) -> bytes:
        return bz2.decompress(data) if data.startswith(b"BZh") else data  # no pickle starts so


class _PicklerOfWorkers:
    """Stands for Beam's pickler in workers."""

    @staticmethod
    def dumps(value: Any) -> Any:
        from apache_beam.internal import pickler

        with applied(plain_pickles):
            return pickler.dumps(value)

    @staticmethod
    def loads(data: bytes) -> Any:
        from apache_beam.internal import pickler

        return pickler.loads(data)


@functools.cache
def plain_pickles() -> None:
    """Compresses no pickles of steps (speed).

    Workers are threads or forks of this process. Beam compresses each pickle by bz2, 0.4 ms for the
    least text: 0.03 of 1.0 s of CPU of a small conversion, 0.2 of 11 s of a million rows in two
    processes.

    Upstream: apache/beam has a comment on the choice of the compression; no upstream issue found.
    """
    from apache_beam.internal import cloudpickle_pickler
    from apache_beam.runners.worker import bundle_processor

    cloudpickle_pickler.bz2 = _Pickles
    bundle_processor.pickler = _PicklerOfWorkers


@functools.cache
def cache_option_views() -> None:
    """Parses the options of each of Beam's option classes once (speed).

    Beam parses them 240 times for a small job: 0.12 CPU s, where 0.01 s remain.

    Upstream: apache/beam#26034 asks for options that are parsed once.
    """
    from apache_beam.options.pipeline_options import PipelineOptions

    view_as = PipelineOptions.view_as

    def view(options: Any, cls: type) -> Any:
        views = _active.get().get(cache_option_views)
        if views is None:
            return view_as(options, cls)
        shared = options._all_options  # noqa: SLF001 - shared by all views of the options
        if (id(shared), cls) not in views:
            # Kept with the view, so that no identity is used again.
            views[id(shared), cls] = (view_as(options, cls), shared)
        return views[id(shared), cls][0]

    PipelineOptions.view_as = view
