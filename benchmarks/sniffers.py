"""Compares what sniffers find in the files of ``tests/sources/csv_corpus.py``.

The sniffers are ours, DuckDB's ``sniff_csv`` and clevercsv. The others are told the encoding, which
ours finds. A file is right if the delimiter, the quote, the header and the number of columns are.

    python -m benchmarks.sniffers            # clevercsv is left out unless it is installed
"""

from __future__ import annotations

import collections
import pathlib
import re
import tempfile
import time
from collections.abc import Callable

import duckdb

from beam_pipelines.core.errors import DataError
from beam_pipelines.sources.csv.sniffer import sniff
from tests.sources.csv_corpus import Made, corpus

# Delimiter, quote, header, number of columns.
Finding = tuple[str, str, bool, int]


def ours(path: pathlib.Path) -> Finding | None:
    """Returns what our sniffer finds."""
    try:
        found = sniff(path.read_bytes())
    except DataError:
        return None
    return found.delimiter, found.quote, found.header, len(found.cells)


def by_duckdb(path: pathlib.Path) -> Finding | None:
    """Returns what DuckDB finds."""
    query = "SELECT Delimiter, Quote, HasHeader, len(Columns) FROM sniff_csv(?)"
    try:
        row = duckdb.execute(query, [str(path)]).fetchone()
    except duckdb.Error:
        return None
    return None if row is None else (row[0], row[1], bool(row[2]), row[3])


def by_clevercsv(path: pathlib.Path) -> Finding | None:
    """Returns what clevercsv finds."""
    import clevercsv

    text = path.read_text(encoding="utf-8")
    try:
        dialect = clevercsv.Sniffer().sniff(text)
        if dialect is None:
            return None
        has_header = clevercsv.Sniffer().has_header(text)
        first = next(clevercsv.reader(text.splitlines(keepends=True), dialect))
    except (clevercsv.Error, StopIteration):
        return None
    return dialect.delimiter, dialect.quotechar, has_header, len(first)


def is_right(made: Made, found: Finding | None) -> bool:
    """Whether a finding is that of the file."""
    if found is None:
        return False
    delimiter, quote, header, columns = found
    return (
        (not made.delimiter or delimiter == made.delimiter)
        and (made.quote != "'" or quote == "'")
        and header == made.header
        and columns == made.columns
    )


def main() -> None:
    """Prints how many files each sniffer finds right, and its time."""
    files = list(corpus())
    sniffers: dict[str, Callable[[pathlib.Path], Finding | None]] = {
        "beam-pipelines": ours,
        "DuckDB": by_duckdb,
        "clevercsv": by_clevercsv,
    }
    try:
        import clevercsv  # noqa: F401
    except ImportError:
        del sniffers["clevercsv"]
    with tempfile.TemporaryDirectory() as folder:
        for name, find in sniffers.items():
            wrong: collections.Counter[str] = collections.Counter()
            right, start = 0, time.process_time()
            for made in files:
                path = pathlib.Path(folder) / "a.csv"
                text = made.data.decode(made.encoding).lstrip("\ufeff")
                path.write_bytes(text.encode())
                if is_right(made, find(path)):
                    right += 1
                else:
                    wrong[re.sub(r" ?[0-9]+$", "", made.name)] += 1
            secs = time.process_time() - start
            print(
                f"{name:15} {right} of {len(files)} right, {1000 * secs / len(files):.1f} ms each"
            )
            for kind, number in wrong.most_common(6):
                print(f"{'':15} wrong: {number} of '{kind}'")


if __name__ == "__main__":
    main()
