"""The command ``doctor``: what this machine has, and what it lacks."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any, NamedTuple

import click

from beam_pipelines.cli.options import StorageCommand
from beam_pipelines.cli.output import answer, output_options, say
from beam_pipelines.core.version import __version__


class Fact(NamedTuple):
    """One fact: its name, its text, and whether it is a problem."""

    name: str
    text: str
    is_problem: bool = False


class _Doctor(StorageCommand):
    checks_access = False  # it reports them itself


@click.command(cls=_Doctor, epilog="doctor gs://bucket/data")
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@output_options
def doctor(paths: tuple[str, ...], form: str) -> int:
    """Check the installation, object stores and PATHs.

    Exit 1 if something is missing.
    """
    findings = list(_findings(paths))
    if form == "json":
        answer(form, [found._asdict() for found in findings], ())
    else:
        width = max(len(found.name) for found in findings)
        for found in findings:
            say(f"{'!' if found.is_problem else ' '} {found.name:<{width}}  {found.text}")
    return int(any(found.is_problem for found in findings))


def _findings(paths: tuple[str, ...]) -> Iterator[Fact]:
    from beam_pipelines.core import _native
    from beam_pipelines.core.formatting import show_bytes

    yield Fact("beam-pipelines", f"{__version__} on Python {platform.python_version()}")
    for name in ("apache-beam", "pyarrow", "duckdb", "tensorflow"):
        version = _version(name)
        yield Fact(name, version or "not installed", not version)
    has_kernels = _native.KERNELS_AVAILABLE
    text = "built" if has_kernels else "not built: install a C++ compiler, and this package again"
    yield Fact("C++ kernels", text, not has_kernels)
    text = _version("beam-pipelines-plugins") or "not installed; in a clone: pip install ./plugins"
    yield Fact("beam-pipelines-plugins", text)
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    yield Fact("temporary files", f"{folder}, {show_bytes(free)} free", free < 1 << 30)
    yield Fact("cores", str(os.cpu_count()))
    yield from map(_path, paths)


def _version(name: str) -> str:
    """Returns the version of a distribution; empty if it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _path(path: str) -> Fact:
    from beam_pipelines.core.errors import PipelineError, mask
    from beam_pipelines.files.beam import cloud_access, files

    try:
        cloud_access.check_paths([path])
        there: Any = files.exists(path)
    except PipelineError as error:
        return Fact(mask(path), str(error), is_problem=True)
    return Fact(mask(path), "is there" if there else "is not there", not there)
