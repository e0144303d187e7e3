"""Switches the C++ kernels off, as where the extension is not built."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from beam_pipelines.core import _native
from beam_pipelines.core._native import reference, reference_hashes

HOMES = [(reference, reference.__all__), (reference_hashes, reference_hashes.__all__)]


@contextlib.contextmanager
def without_kernels() -> Iterator[None]:
    """Puts the reference of each kernel in its place."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_native, "KERNELS_AVAILABLE", False)
        for home, names in HOMES:
            for name in names:
                patch.setattr(_native, name, getattr(home, name))
        yield
