"""Builds the extension ``beam_pipelines.core._native._kernels``; everything else is in
pyproject.toml.
"""

from __future__ import annotations

import pathlib

from setuptools import Extension, setup

FOLDER = pathlib.Path("beam_pipelines/core/_native")

setup(
    ext_modules=[
        Extension(
            "beam_pipelines.core._native._kernels",
            sources=sorted(path.as_posix() for path in FOLDER.glob("*.cc")),
            depends=sorted(path.as_posix() for path in FOLDER.glob("*.h")),
            language="c++",
            extra_link_args=["-pthread"],
            extra_compile_args=[
                "-pthread",
                "-std=c++17",
                "-O3",
                "-g0",
                "-Wall",
                "-Wextra",
                "-fvisibility=hidden",
            ],
            # One build serves every Python from 3.10 on.
            define_macros=[("Py_LIMITED_API", "0x030A0000")],
            py_limited_api=True,
            # Without a compiler the installation goes on without it.
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
