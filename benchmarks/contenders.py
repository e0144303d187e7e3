"""Contenders of ``compare.py``: their jobs, commands and requirements.

A contender gets a file and a folder, and is a process of its own. The programs of peers
(``peers/``) all take the same options. Their last line is JSON with the ``seconds`` that they took
without imports and without the start of an engine.
"""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from collections.abc import Callable, Mapping

import bench_convert
from bench_encode import encode_section

HERE = pathlib.Path(__file__).resolve().parent
COMMAND = str(pathlib.Path(sys.executable).with_name("beam-pipelines"))
FULL, FEW = "full", "few"  # kinds of sizes


@dataclasses.dataclass(frozen=True)
class Job:
    """A part of the table: one task for the contenders.

    Attributes:
      source: suffix of the input file, ``csv`` or ``parquet``.
      compression: ``gzip`` or ``none``, of the records; empty if the job has no records, only
        statistics and a schema.
      statistics: whether the job includes statistics and a schema, like those of TFDV and TFX.
      encodings: whether numbers are filled, made logarithms and standardised, and texts get ids of
        vocabularies of at most 10,000.
    """

    source: str
    compression: str
    statistics: bool = False
    encodings: bool = False

    @property
    def name(self) -> str:
        """The job's name, by which ``--jobs`` chooses it."""
        target = {"gzip": "gzip", "none": "no compression", "": "no records"}[self.compression]
        asked = [name for name in ("statistics", "encodings") if getattr(self, name)]
        return ", ".join([f"{self.source} to {target}", *asked])


JOBS = (
    *(
        Job(source, compression, statistics, encodings)
        for encodings in (False, True)
        for statistics in (False, True)
        for source in ("csv", "parquet")
        for compression in ("gzip", "none")
    ),
    Job("csv", "", statistics=True),
)


@dataclasses.dataclass(frozen=True)
class Places:
    """Paths and resources of a comparison.

    Attributes:
      peers: folder of the peers' environments.
      cores: how many cores, workers or threads a contender is told to use.
      tfx: command that is Python with TFX and TFDV, or nothing.
    """

    peers: pathlib.Path
    cores: int
    tfx: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Contender:
    """A tool that takes part.

    Attributes:
      key: short name, as on the command line.
      title: as in the table.
      about: notes on the numbers, above all how it shuffles.
      gzip: its compression level.
      cannot: for a job, the reason why it takes no part, or an empty text.
      command: its start, for a job, an input file, rows of it, and a folder for its output.
      rows: for a job, which of the sizes it gets.
      records: pattern of its record files in its folder.
      missing: why it cannot run here, or an empty text.
    """

    key: str
    title: str
    about: str
    gzip: str
    cannot: Callable[[Job], str]
    command: Callable[[Job, pathlib.Path, int, pathlib.Path], list[str]]
    rows: Callable[[Job], str]
    records: str = "**/*"
    missing: str = ""

    @property
    def is_ours(self) -> bool:
        """Whether it is beam-pipelines."""
        return self.key.startswith("ours")


def only(**allowed: tuple[object, ...]) -> Callable[[Job], str]:
    """Returns a function that says why a contender cannot do a job.

    ``source=("csv",)`` allows CSV only.
    """
    reasons: Mapping[str, Callable[[Job], str]] = {
        "source": lambda job: f"does not read {job.source}",
        "compression": lambda job: {
            "gzip": "writes no gzip",
            "none": "always compresses",
            "": "writes records",
        }[job.compression],
        "statistics": lambda job: (
            "has no statistics and schema" if job.statistics else "is all about statistics"
        ),
        "encodings": lambda job: "has no encodings" if job.encodings else "is all about encodings",
    }

    def cannot(job: Job) -> str:
        found = [
            reasons[name](job)
            for name, values in allowed.items()
            if getattr(job, name) not in values
        ]
        return " and ".join(found)

    return cannot


def always(kind: str) -> Callable[[Job], str]:
    """Returns what gives the same size to every job."""
    return lambda _: kind


# Ours


def ours(key: str, title: str, level: int | None, places: Places) -> Contender:
    """This package, at its default level of gzip or at another."""

    def command(job: Job, data: pathlib.Path, rows: int, output: pathlib.Path) -> list[str]:  # noqa: ARG001
        output.mkdir(parents=True, exist_ok=True)
        recipe = output.with_suffix(".yaml")
        recipe.write_text(recipe_text(job, data, level))
        verb = "convert" if job.compression else "describe"
        return [
            COMMAND,
            verb,
            str(recipe),
            "--output",
            str(output),
            f"--direct_num_workers={places.cores}",
        ]

    def cannot(job: Job) -> str:
        return "compresses" if level is not None and job.compression != "gzip" else ""

    about, gzip = (
        "shuffled; statistics and schema always included",
        "gzip 1" if level is None else f"zlib-ng {level}",
    )
    return Contender(
        key, title, about, gzip, cannot, command, always(FULL), "examples/**/*.tfrecord*"
    )


def recipe_text(job: Job, data: pathlib.Path, level: int | None = None) -> str:
    """Returns the recipe of a job."""
    text = bench_convert.RECIPE.format(path=data)
    if job.compression:
        more = f", level: {level}" if level is not None else ""
        text = text.replace("compression: gzip", f"compression: {job.compression}{more}")
    return text + (encode_section() if job.encodings else "")


# Peers


def program(
    python: list[str], name: str, cores: int
) -> Callable[[Job, pathlib.Path, int, pathlib.Path], list[str]]:
    """Returns what starts a program of ``peers/``."""

    def command(job: Job, data: pathlib.Path, rows: int, output: pathlib.Path) -> list[str]:  # noqa: ARG001
        asked = [f"--{flag}" for flag in ("statistics", "encodings") if getattr(job, flag)]
        compression = ["--compression", job.compression] if job.compression else []
        places = ["--input", str(data), "--output", str(output), "--cores", str(cores)]
        return [*python, str(HERE / "peers" / name), *places, *compression, *asked]

    return command


def tutorial_loop(job: Job, data: pathlib.Path, rows: int, output: pathlib.Path) -> list[str]:
    """Starts the loop people write today."""
    target = output / "loop.tfrecord"
    script = [
        sys.executable,
        str(HERE / "tutorial_loop.py"),
        "--input",
        str(data),
        "--rows",
        str(rows),
    ]
    return [*script, "--output", str(target), "--compression", job.compression]


def tf_transform(job: Job, data: pathlib.Path, rows: int, output: pathlib.Path) -> list[str]:  # noqa: ARG001
    """Starts tf.Transform."""
    return [
        sys.executable,
        str(HERE / "tft_pipeline.py"),
        "--input",
        str(data),
        "--output",
        str(output),
    ]


def contenders(places: Places) -> list[Contender]:
    """Returns everyone, ours first."""
    here = [sys.executable]
    no_tfx = "" if places.tfx else "no environment with TFX: give one with --tfx"

    def own(
        name: str,
        title: str,
        script: str,
        about: str,
        gzip: str,
        cannot: Callable[[Job], str],
        kind: str,
    ) -> Contender:
        python = places.peers / name / "bin" / "python"
        missing = "" if python.exists() else "not installed: run compare.py --install"
        command = program([str(python)], script, places.cores)
        return Contender(name, title, about, gzip, cannot, command, always(kind), missing=missing)

    no_statistics = only(statistics=(False,))
    return [
        ours("ours", "beam-pipelines", None, places),
        ours("ours-6", "beam-pipelines, gzip 6", 6, places),
        Contender(
            "loop",
            "tutorial loop",
            "not shuffled",
            "zlib 6",
            only(source=("csv",), statistics=(False,), encodings=(False,)),
            tutorial_loop,
            always(FEW),
        ),
        Contender(
            "pandas",
            "pandas loop",
            "shuffled in memory",
            "zlib 6",
            no_statistics,
            program(here, "pandas_loop.py", places.cores),
            always(FEW),
        ),
        Contender(
            "tft",
            "tf.Transform",
            "not shuffled, one process",
            "zlib 6",
            only(source=("csv",), compression=("gzip",), statistics=(False,), encodings=(True,)),
            tf_transform,
            always(FEW),
            "examples-*",
        ),
        own(
            "ray",
            "Ray Data",
            "ray_data.py",
            "random_shuffle",
            "zlib 9, Arrow's default",
            no_statistics,
            FEW,
        ),
        own(
            "tfds",
            "TFDS builder",
            "tfds_builder.py",
            "shuffled by key, one process",
            "",
            only(compression=("none",), statistics=(False,), encodings=(False,)),
            FEW,
        ),
        own(
            "spark", "PySpark", "spark_write.py", spark_about(places), "zlib 6", no_statistics, FULL
        ),
        Contender(
            "tfx",
            "TFX",
            "shuffled, one split",
            "zlib 6",
            only(compression=("gzip",)),
            program(list(places.tfx), "tfx_pipeline.py", places.cores),
            lambda job: FEW if job.encodings or job.source == "parquet" else FULL,
            "records/**/*.gz",
            no_tfx,
        ),
        Contender(
            "tfdv",
            "TFDV",
            "generate_statistics_from_csv, infer_schema",
            "",
            lambda job: "writes no records" if job.compression else "",
            program(list(places.tfx), "tfdv_statistics.py", places.cores),
            always(FULL),
            missing=no_tfx,
        ),
    ]


def spark_about(places: Places) -> str:
    """Says what turns Spark's rows into records here."""
    writer = (
        "spark-tfrecord"
        if list((places.peers / "spark").glob("jars/spark-tfrecord*.jar"))
        else "our stand-in for spark-tfrecord"
    )
    return f"orderBy(rand()), written by {writer}"
