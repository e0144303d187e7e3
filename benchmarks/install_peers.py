"""Makes the environments of the peers of ``compare.py`` with pip and Maven.

``peers/<name>.txt`` and this file hold the versions.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Sequence

HERE = pathlib.Path(__file__).resolve().parent
NAMES = ("ray", "tfds", "spark")
CONNECTOR = "com.linkedin.sparktfrecord:spark-tfrecord_2.12:0.7.0"
# Compile-time dependencies of the connector's replacement.
STAND_IN = (
    "org.tensorflow:tensorflow-hadoop:1.15.0",
    "org.tensorflow:proto:1.15.0",
    "com.google.protobuf:protobuf-java:3.8.0",
)


def install(folder: pathlib.Path, names: Sequence[str]) -> None:
    """Makes those that are named, or all.

    Raises:
      SystemExit: there is no peer of a name, or one could not be installed.
    """
    unknown = sorted(set(names) - set(NAMES))
    if unknown:
        sys.exit(f"--install: found {', '.join(unknown)}, expected some of {', '.join(NAMES)}")
    for name in names or NAMES:
        environment = folder / name
        run([sys.executable, "-m", "venv", str(environment)])
        python = [
            str(environment / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]
        run([*python, "--requirement", str(HERE / "peers" / f"{name}.txt")])
        if name == "spark":
            install_jars(environment)
        print(f"{name}: {environment}", flush=True)


def install_jars(environment: pathlib.Path) -> None:
    """Fetches the connector; if Maven does not have it, builds its replacement."""
    jars = environment / "jars"
    if not fetch(CONNECTOR, jars):
        print(
            f"Maven does not have {CONNECTOR}: spark/WriteExamples.java stands in for it",
            flush=True,
        )
        missing = [name for name in STAND_IN if not fetch(name, jars)]
        if missing:
            sys.exit(
                f"Maven does not have {', '.join(missing)}: PySpark has nothing to write TFRecords "
                "with"
            )
        compile_stand_in(environment, jars)


def fetch(name: str, jars: pathlib.Path) -> bool:
    """Fetches a jar by Maven, and returns whether it is there."""
    command = [
        "mvn",
        "--quiet",
        "--batch-mode",
        "dependency:copy",
        f"-Dartifact={name}",
        f"-DoutputDirectory={jars}",
    ]
    return subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == 0


def compile_stand_in(environment: pathlib.Path, jars: pathlib.Path) -> None:
    """Compiles the class and puts it in a jar."""
    classes = environment / "classes"
    paths = [*environment.glob("lib/python*/site-packages/pyspark/jars/*.jar"), *jars.glob("*.jar")]
    source = HERE / "peers" / "spark" / "WriteExamples.java"
    run(["javac", "-d", str(classes), "-classpath", ":".join(map(str, paths)), str(source)])
    run(["jar", "--create", "--file", str(jars / "write-examples.jar"), "-C", str(classes), "."])


def run(command: Sequence[str]) -> None:
    """Runs a command that must succeed."""
    if subprocess.run(command, check=False).returncode:
        sys.exit(f"{' '.join(command)}\nfailed")
