"""Imports Beam for a local run, in two thirds of the time."""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import pkgutil
import sys
import types
from collections.abc import Sequence
from typing import Any

from beam_pipelines.files.beam.cloud_access import share_s3_clients

_FILESYSTEM_FOR_SCHEME = {
    "azfs": "apache_beam.io.azure.blobstoragefilesystem",
    "gs": "apache_beam.io.gcp.gcsfilesystem",
    "s3": "apache_beam.io.aws.s3filesystem",
}
_LEFT_OUT = frozenset(
    [
        *("absl", "apitools", "bson", "dill", "pandas", "google.cloud.dataflow"),
        *("apache_beam.io.gcp.bigquery", *_FILESYSTEM_FOR_SCHEME.values()),
    ]
)
# Beam imports names of these, which a local run never calls: they compare type hints, encrypt keys,
# read times and Avro, and fetch files for a cluster.
_DEFERRED = (
    *("beartype.door", "beartype.roar", "cryptography.fernet", "httplib2"),
    *("dateutil", "dateutil.parser", "fastavro", "fastavro.read", "fastavro.write"),
)


def names_runner(arguments: Sequence[str]) -> bool:
    """Whether a command's arguments name a ``--runner``."""
    return any(argument.startswith("--runner") for argument in arguments)


class _MissingPackages:
    """A finder of modules that reports the left-out ones as missing.

    ``None`` in ``sys.modules`` would do for Beam; Arrow, compiled by Cython, takes it for pandas.
    """

    def find_spec(self, name: str, *_: object) -> None:
        if name in _LEFT_OUT:
            raise ModuleNotFoundError(f"{name} is left out", name=name)


class _Deferred(types.ModuleType):
    """A stand-in of a module or of its name, until called.

    Then modules of Beam get the real ones in place of all stand-ins: an ``except`` takes no
    stand-in of an exception.
    """

    def __getattr__(self, name: str) -> _Deferred:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Deferred(f"{self.__name__}.{name}")

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        of_beam = [name for name in sys.modules if name.startswith("apache_beam")]
        for module in map(sys.modules.__getitem__, of_beam):
            for name, value in list(vars(module).items()):
                if isinstance(value, _Deferred):
                    setattr(module, name, pkgutil.resolve_name(value.__name__))
        return pkgutil.resolve_name(self.__name__)(*arguments, **named)


def import_beam(arguments: Sequence[str]) -> None:
    """Imports Beam, for a local run without optional packages (speed).

    The packages are pandas, absl and dill, which Beam pickles some objects with, and clients of
    services. Beam runs without these packages, which are extras of its own. They are missing only
    during the import; later imports find them, and a filesystem of an object store is imported when
    a path asks for it. Beam cannot do without some others (``_DEFERRED``), and gets stand-ins that
    import them when they are called. Arrow looks for pandas once, here; otherwise each worker would
    import it. CPU of the import: 0.4 s, where all of Beam takes 1.3 s.

    Upstream: apache/beam#37445 and #40178 make clients optional, but import those that are
    installed; no upstream issue found that makes the imports lazy.

    Args:
      arguments: of the command; one that names a ``--runner`` gets all of Beam.
    """
    if "apache_beam" in sys.modules or names_runner(arguments):
        return
    finder = _MissingPackages()
    deferred = {name: _Deferred(name) for name in _DEFERRED if name not in sys.modules}
    sys.modules.update(deferred)
    sys.meta_path.insert(0, finder)
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)  # Beam warns of a database without its client
    try:
        importlib.import_module("apache_beam")
        importlib.import_module("pyarrow").array([0])
    finally:
        sys.meta_path.remove(finder)
        for name in deferred:
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
