"""Keeps compiled templates where Python keeps its compiled modules."""

from __future__ import annotations

import contextlib
import pathlib
import sys

import jinja2
from jinja2.bccache import Bucket

_FOLDER = pathlib.Path(__file__).parent / "__pycache__"


class TemplateCache(jinja2.FileSystemBytecodeCache):
    """Compiled templates in ``__pycache__`` (speed).

    To compile those of the report takes 0.1 s, a tenth of a small conversion. Jinja compares a
    checksum of the template. As with modules, nothing is kept where the folder is read-only, or
    ``PYTHONDONTWRITEBYTECODE`` is set.
    """

    def __init__(self) -> None:
        super().__init__(str(_FOLDER), f"%s.{sys.implementation.cache_tag}.jinja")

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Writes a compiled template, if that is allowed."""
        if sys.dont_write_bytecode:
            return
        with contextlib.suppress(OSError):
            _FOLDER.mkdir(exist_ok=True)
            super().dump_bytecode(bucket)
