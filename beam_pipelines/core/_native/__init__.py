"""C++ kernels for tf.Examples, frames, hashes, counts, CSV, JPEGs and rows.

They are an optional extension, built where a C++ compiler is installed. Without it the functions
here are those of the reference: short code in Python that defines what each kernel returns.
"""

from __future__ import annotations

from beam_pipelines.core._native.shared import DamagedRecordError as DamagedRecordError
from beam_pipelines.core._native.shared import StoredPart as StoredPart
from beam_pipelines.core._native.shared import kernels

KERNELS_AVAILABLE: bool = kernels is not None

if KERNELS_AVAILABLE:
    from beam_pipelines.core._native.columns import *  # noqa: F403
    from beam_pipelines.core._native.images import *  # noqa: F403
    from beam_pipelines.core._native.parts import *  # noqa: F403
    from beam_pipelines.core._native.records import *  # noqa: F403
else:
    from beam_pipelines.core._native.reference import *  # noqa: F403
    from beam_pipelines.core._native.reference_hashes import *  # noqa: F403
