"""Files of delimited text as people have them, and what is right.

``corpus`` makes them from tables, locales and oddities; the same ones every time.
"""

from __future__ import annotations

import csv
import datetime
import io
import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

NAMES = [
    "Anna Müller", "José García", "O'Brien, Pat", "Li Wei", "Søren Ås", "Zoë King", "Émile Noël",
]  # fmt: skip
PLAIN_NAMES = [
    "Anna Miller", "Jose Garcia", "Pat Brown", "Li Wei", "Soren As", "Zoe King", "Ann Lee",
]  # fmt: skip
CITIES = ["Berlin", "New York", "Paris", "Wien", "Rio", "Oslo", "Roma", "Kyoto"]
NOTES = [
    "fine", "call again; later", "size 5, red", "see a|b", 'said "ok"', "two\nlines", "",
    "tab\tin it",
]  # fmt: skip


class Locale(NamedTuple):
    """How a country's programs write."""

    delimiter: str
    decimal: str
    thousands: str
    day: str
    yes: str
    no: str
    before: str = ""
    after: str = ""


LOCALES = {
    "iso": Locale(",", ".", "", "%Y-%m-%d", "true", "false"),
    "us": Locale(",", ".", ",", "%m/%d/%Y", "yes", "no", before="$"),
    "uk": Locale(",", ".", ",", "%d/%m/%Y", "Yes", "No", before="£"),
    "de": Locale(";", ",", ".", "%d.%m.%Y", "ja", "nein", after=" €"),
    "fr": Locale(";", ",", " ", "%d/%m/%Y", "oui", "non", after=" €"),
    "ch": Locale(";", ".", "'", "%d.%m.%Y", "ja", "nein", before="CHF "),
    "br": Locale(";", ",", ".", "%d/%m/%Y", "sim", "não", before="R$ "),
    "se": Locale(";", ",", "\u00a0", "%Y-%m-%d", "ja", "nej"),
}


class Made(NamedTuple):
    """One file.

    Attributes:
      name: what it is like.
      data: its bytes.
      encoding: of its text, for readers that must be told.
      delimiter: between cells; empty: there is one column.
      quote: around cells, if it matters.
      header: whether the first line names the columns.
      columns: how many there are.
      types: column number -> type that its values have; the others are not judged.
      asked: whether two readings are about as likely, so that a reader should ask.
    """

    name: str
    data: bytes
    encoding: str
    delimiter: str
    quote: str
    header: bool
    columns: int
    types: dict[int, str]
    asked: bool = False


Cell = Callable[[random.Random, Locale, int], str]


def _number(value: float, locale: Locale, places: int = 2) -> str:
    text = f"{value:,.{places}f}"
    swapped = text.replace(",", "\0").replace(".", locale.decimal)
    return swapped.replace("\0", locale.thousands)


def _date(rng: random.Random, locale: Locale, row: int) -> str:
    day = datetime.date(2024, 1, 15) + datetime.timedelta(days=13 * row + rng.randrange(5))
    return day.strftime(locale.day)


KINDS: dict[str, tuple[Cell, str]] = {
    "id": (lambda _, __, row: str(1000 + row), "int64"),
    "name": (lambda rng, _, __: rng.choice(NAMES), "text"),
    "plain": (lambda rng, _, __: rng.choice(PLAIN_NAMES), "text"),
    "city": (lambda rng, _, __: rng.choice(CITIES), "text"),
    "amount": (lambda rng, locale, _: _number(rng.uniform(-9e3, 9e5), locale), "float64"),
    "price": (lambda rng, locale, _: locale.before + _number(rng.uniform(1, 9e4), locale) + locale.after, "float64"),
    "share": (lambda rng, locale, _: _number(rng.uniform(0, 100), locale, 1) + "%", "float64"),
    "day": (_date, "date"),
    "paid": (lambda rng, locale, row: (locale.yes, locale.no)[(row + rng.randrange(2)) % 2], "bool"),
    "note": (lambda rng, _, __: rng.choice(NOTES), "text"),
    "count": (lambda rng, _, __: str(rng.randrange(500)), "int64"),
    "zip": (lambda rng, _, __: f"0{rng.randrange(1000, 9999)}", "text"),
    "code": (lambda rng, _, __: f"{rng.choice('ABC')}-{rng.randrange(99)}", "text"),
    "time": (lambda _, __, row: f"{row % 24:02}:{row % 60:02}:00", "time"),
    "url": (lambda _, __, row: f"https://example.org/p?id={row}&x=1;y=2", "text"),
}  # fmt: skip

TABLES = {
    "orders": ["id", "name", "amount", "day", "paid"],
    "sales": ["day", "city", "price", "share", "count"],
    "people": ["id", "name", "city", "zip", "day"],
    "sensors": ["time", "amount", "share", "code"],
    "tickets": ["id", "day", "note", "paid", "name"],
    "links": ["id", "url", "count", "plain"],
}


def _rows(rng: random.Random, kinds: list[str], locale: Locale, number: int) -> list[list[str]]:
    return [[KINDS[kind][0](rng, locale, row) for kind in kinds] for row in range(number)]


def _write(rows: list[list[str]], delimiter: str, quote: str, quoting: int, end: str) -> str:
    out = io.StringIO(newline="")
    writer = csv.writer(
        out,
        delimiter=delimiter,
        quotechar=quote,
        quoting=quoting,
        lineterminator=end,  # type: ignore[arg-type]
    )
    writer.writerows(rows)
    return out.getvalue()


def _made(
    name: str,
    rng: random.Random,
    kinds: list[str],
    locale: Locale,
    *,
    rows: int = 40,
    delimiter: str = "",
    header: bool = True,
    quote: str = '"',
    quoting: int = csv.QUOTE_MINIMAL,
    end: str = "\n",
    encoding: str = "utf-8",
) -> Made:
    delimiter = delimiter or locale.delimiter
    table = ([list(kinds)] if header else []) + _rows(rng, kinds, locale, rows)
    data = _write(table, delimiter, quote, quoting, end).encode(encoding, errors="replace")
    types = {number: KINDS[kind][1] for number, kind in enumerate(kinds)}
    return Made(name, data, encoding, delimiter, quote, header, len(kinds), types)


def corpus() -> Iterator[Made]:
    """Yields the files."""
    yield from _of_locales()
    yield from _of_encodings()
    yield from _of_layouts()
    yield from _odd()
    yield from _asked()


def _of_locales() -> Iterator[Made]:
    for place, (country, locale) in enumerate(LOCALES.items()):
        for table, kinds in TABLES.items():
            rng = random.Random(f"{country} {table}")
            yield _made(f"{country} {table}", rng, kinds, locale)
            other = ("\t", "|", ";", ",")[(place + len(table)) % 4]
            yield _made(
                f"{country} {table} {other!r}", rng, kinds, locale, delimiter=other, rows=25
            )


def _of_encodings() -> Iterator[Made]:
    for country, encoding in (
        ("de", "cp1252"), ("fr", "latin-1"), ("us", "utf-8-sig"), ("iso", "utf-16"),
        ("se", "utf-16"), ("uk", "cp1252"), ("de", "utf-8-sig"), ("br", "latin-1"),
    ):  # fmt: skip
        for table in ("orders", "people"):
            rng = random.Random(f"{country} {encoding} {table}")
            locale = LOCALES[country]
            if encoding == "latin-1" and "€" in locale.after:
                locale = locale._replace(after="")
            name = f"{country} {table} {encoding}"
            yield _made(name, rng, TABLES[table], locale, encoding=encoding, rows=60)


def _of_layouts() -> Iterator[Made]:
    for country, locale in LOCALES.items():
        rng = random.Random(f"layouts {country}")
        kinds = TABLES["orders"]
        yield _made(f"{country} no header", rng, kinds, locale, header=False)
        yield _made(
            f"{country} no header, tab", rng, TABLES["sales"], locale, header=False, delimiter="\t"
        )
        yield _made(f"{country} all quoted", rng, kinds, locale, quoting=csv.QUOTE_ALL)
        yield _made(f"{country} CR LF", rng, TABLES["people"], locale, end="\r\n")
        yield _made(f"{country} three rows", rng, TABLES["sales"], locale, rows=13)
        yield _made(
            f"{country} notes", rng, TABLES["tickets"], locale, quoting=csv.QUOTE_ALL, rows=30
        )
        apostrophes = ["id", "plain", "city", "day", "paid"]
        yield _made(
            f"{country} single quotes", rng, apostrophes, locale, quote="'", quoting=csv.QUOTE_ALL
        )


def _odd() -> Iterator[Made]:
    for number in range(6):
        rng = random.Random(f"odd {number}")
        locale = list(LOCALES.values())[number]
        mark = locale.delimiter
        rows = _rows(rng, ["city", "count", "day"], locale, 30)

        def made(name: str, lines: list[list[str]], types: dict[int, str], **more: object) -> Made:
            data = _write(lines, mark, '"', csv.QUOTE_MINIMAL, "\n").encode()  # noqa: B023
            made_ = Made(name, data, "utf-8", mark, '"', True, len(lines[0]), types)  # noqa: B023
            return made_._replace(**more)  # type: ignore[arg-type]

        yield made(
            f"index of pandas {number}",
            [["", "city", "count", "day"], *([str(i), *row] for i, row in enumerate(rows))],
            {1: "text", 2: "int64", 3: "date"},
        )
        yield made(
            f"blanks around names {number}", [[" city", "count ", " day "], *rows], {1: "int64"}
        )
        years = [["country", *map(str, range(2015, 2024))]]
        values = [[city, *(f"{rng.uniform(0, 9):.2f}" for _ in range(9))] for city in CITIES]
        dots = [[cell.replace(".", locale.decimal) for cell in row] for row in values]
        yield made(f"years as names {number}", years + dots, {0: "text", 3: "float64"})
        sparse = [[city, "" if i % 3 else str(i), ""] for i, (city, *_) in enumerate(rows)]
        yield made(f"empty cells {number}", [["city", "count", "left"], *sparse], {1: "int64"})
        lone = "word\n" + "\n".join(rng.choice(CITIES) for _ in range(20)) + "\n"
        yield Made(
            f"one column of words {number}", lone.encode(), "utf-8", "", '"', True, 1, {0: "text"}
        )
        counts = "n\n" + "\n".join(str(rng.randrange(99)) for _ in range(20))
        yield Made(
            f"one column of numbers {number}",
            counts.encode(),
            "utf-8",
            "",
            '"',
            True,
            1,
            {0: "int64"},
        )
        sizes = [[city, f"{i}' {i}\" wide", day] for i, (city, _, day) in enumerate(rows)]
        text = "\n".join(mark.join(row) for row in [["city", "size", "day"], *sizes])
        yield Made(
            f"inches {number}", text.encode(), "utf-8", mark, '"', True, 3, {1: "text", 2: "date"}
        )
        words = [[row[0], rng.choice(CITIES)] for row in rows]
        yield made(f"texts only {number}", [["from", "to"], *words], {0: "text", 1: "text"})


def _asked() -> Iterator[Made]:
    for name, text in {
        "days that are months, too": "id,day\n1,04/03/2024\n2,05/06/2024\n",
        "days with years of two digits": "id,day\n1,04/03/09\n2,05/06/10\n",
        "one comma of thousands or of a fraction": 'id,x\n1,"1,234"\n2,"5,678"\n',
        "one dot of thousands or of a fraction": "id;x\n1;1.234\n2;5.678\n",
        "days with hyphens": "id,day\n1,04-03-2024\n",
    }.items():
        mark = ";" if ";" in text else ","
        yield Made(name, text.encode(), "utf-8", mark, '"', True, 2, {}, asked=True)
