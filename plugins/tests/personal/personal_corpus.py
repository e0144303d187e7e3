"""Columns with planted personal data, and columns that only look like it.

All values follow from formulae. The check digits are computed here in plain Python.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

ROWS = 400
_GIVEN = [
    "Anna",
    "Peter",
    "Maria",
    "Thomas",
    "Laura",
    "Michael",
    "Julia",
    "Stefan",
    "Sarah",
    "Daniel",
]
_FAMILY = [
    "Schmidt",
    "Miller",
    "Garcia",
    "Rossi",
    "Dubois",
    "Novak",
    "Jansen",
    "Brown",
    "O'Neill",
    "Müller",
]
_WORDS = [
    "the",
    "parcel",
    "came",
    "late",
    "and",
    "box",
    "was",
    "damaged",
    "please",
    "send",
    "another",
    "one",
    "soon",
    "thanks",
]


def _random(number: int, below: int, salt: str = "") -> int:
    digest = hashlib.sha256(f"{salt}/{number}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % below


def luhn_digit(digits: str) -> str:
    """Returns the check digit of Luhn."""
    total = 0
    for place, digit in enumerate(map(int, reversed(digits))):
        doubled = digit * 2 if place % 2 == 0 else digit
        total += doubled - 9 if doubled > 9 else doubled
    return str(-total % 10)


def iban_of(country: str, account: str) -> str:
    """Returns the IBAN of an account."""
    moved = "".join(str(int(character, 36)) for character in f"{account}{country}00")
    return f"{country}{98 - int(moved) % 97:02d}{account}"


def _card(number: int) -> str:
    prefix, length = (("4", 16), ("51", 16), ("37", 15), ("6011", 16), ("2221", 16))[number % 5]
    body = prefix + f"{_random(number, 10**12, 'card'):012d}"[: length - 1 - len(prefix)]
    body = body.ljust(length - 1, "3")
    return body + luhn_digit(body)


def _grouped(text: str, size: int = 4, by: str = " ") -> str:
    return by.join(text[start : start + size] for start in range(0, len(text), size))


def _iban(number: int) -> str:
    account = f"{_random(number, 10**18, 'iban'):018d}"
    country = ("DE", "NL", "GB", "AT")[number % 4]
    by_country = {
        "DE": account,
        "NL": f"ABNA{account[:10]}",
        "GB": f"WEST{account[:14]}",
        "AT": account[:16],
    }
    return iban_of(country, by_country[country])


def _ssn(number: int) -> str:
    area, group = 1 + _random(number, 665, "area"), 1 + _random(number, 99, "group")
    return f"{area:03d}-{group:02d}-{1 + _random(number, 9999, 'serial'):04d}"


def _octets(number: int) -> list[int]:
    return [1 + _random(number, 223, "a")] + [_random(number, 256, salt) for salt in "bcd"]


def _hex_groups(number: int) -> list[str]:
    return [f"{_random(number, 65536, f'v6{place}'):x}" for place in range(8)]


def _person(number: int) -> tuple[str, str]:
    return _GIVEN[_random(number, 10, "given")], _FAMILY[_random(number, 10, "family")]


def _email(number: int) -> str:
    given, family = _person(number)
    return f"{given}.{family}{number}@mail{number % 7}.example.{('com', 'de', 'co.uk')[number % 3]}"


def _local(number: int, size: int) -> str:
    return f"{_random(number, 9 * 10 ** (size - 1), 'phone') + 10 ** (size - 1)}"


def _american(number: int) -> tuple[int, int, int]:
    return 200 + _random(number, 711, "x"), 200 + _random(number, 711, "y"), _random(number, 10**4)


# Kind -> ways to write it.
_VALUES: dict[str, list[Callable[[int], str]]] = {
    "email": [_email, lambda n: _email(n).lower(), lambda n: f"<{_email(n)}>"],
    "phone": [
        lambda n: f"+49 {_local(n, 3)} {_local(n, 7)}",
        lambda n: f"+1{200 + n % 700}{_local(n, 7)}",
        lambda n: "({}) {}-{:04d}".format(*_american(n)),
        lambda n: "{}-{}-{:04d}".format(*_american(n)),
        lambda n: f"+44 (0)20 {_local(n, 4)} {_local(n, 4)}",
        lambda n: f"0{_local(n, 3)}/{_local(n, 6)}",
    ],
    "iban": [_iban, lambda n: _grouped(_iban(n))],
    "card": [_card, lambda n: _grouped(_card(n)), lambda n: _grouped(_card(n), by="-")],
    "ip_address": [
        lambda n: ".".join(map(str, _octets(n))),
        lambda n: ":".join(_hex_groups(n)),
        lambda n: f"2001:db8:{_hex_groups(n)[0]}::{_hex_groups(n)[1]}",
    ],
    "us_ssn": [_ssn],
}


def _sentence(number: int, value: str = "") -> str:
    words = [_WORDS[_random(number, len(_WORDS), str(place))] for place in range(9)]
    return " ".join([*words[:5], *([value] if value else []), *words[5:]])


class Planted(NamedTuple):
    """A column, and its kind of personal data, or ``None``."""

    name: str
    values: list[Any]
    kind: str | None


def planted_columns() -> Iterator[Planted]:
    """Yields columns with personal data, in all rows or in few."""
    for kind, ways in _VALUES.items():
        for number, way in enumerate(ways):
            name = f"x{kind}{number}"
            every = [way(row) for row in range(ROWS)]
            yield Planted(f"{name}a", every, kind)
            rare = [way(row) if row % 100 == 7 else None for row in range(ROWS)]
            yield Planted(f"{name}b", rare, kind)
            if number == 0 or kind in ("iban", "card", "ip_address"):
                inside = [_sentence(row, way(row) if row % 100 == 7 else "") for row in range(ROWS)]
                yield Planted(f"{name}c", inside, kind)
    yield from _by_name()


def _by_name() -> Iterator[Planted]:
    rows = range(ROWS)
    yield Planted("card_as_number", [int(_card(row)) for row in rows], "card")
    yield Planted("ssn", [int(_ssn(row).replace("-", "")) for row in rows], "us_ssn")
    yield Planted("mobilePhone", [int(f"49170{_local(row, 7)}") for row in rows], "phone")
    yield Planted("fax", [f"0{_local(row, 3)}-{_local(row, 6)}" for row in rows], "phone")
    for name in ("first_name", "vorname", "surname", "customerName", "patient_name"):
        yield Planted(name, [_person(row)[name == "surname"] for row in rows], "person_name")
    yield Planted("who", [" ".join(_person(row)) for row in rows], "person_name")
    yield Planted("by", ["{1}, {0}".format(*_person(row)) for row in rows], "person_name")
    yield Planted("name", [" ".join(_person(row)) for row in rows], "person_name")
    yield Planted("store_manager", [" ".join(_person(row)) for row in rows], "person_name")
    rare = [" ".join(_person(row)) if row % 100 == 7 else None for row in rows]
    yield Planted("agent", rare, "person_name")


def false_friends() -> Iterator[Planted]:
    """Yields columns without personal data."""
    towns = ("New York", "San Diego", "Los Angeles", "Salt Lake City", "Charlotte", "Fort Worth")
    like_persons = ("Santa Maria", "Saint Paul", "Port Elizabeth", "San Jose")
    made: dict[str, Callable[[int], Any]] = {
        "home_city": lambda n: like_persons[n % len(like_persons)],
        "brand": lambda n: ("Calvin Klein", "Mary Kay", "Hugo Boss")[n % 3],
        "movieName": lambda n: ("Jerry Maguire", "Annie Hall", "Jackie Brown")[n % 3],
        "firmware": lambda n: f"{n % 9}.{n % 250}.{n % 230}.{n % 40}",
        "order_number": lambda n: 4_000_000_000_000_000 + _random(n, 10**15, "order"),
        "order_text": lambda n: f"{5_100_000_000_000_000 + _random(n, 10**14, 'text')}",
        "order_dashes": lambda n: f"{_random(n, 1000, 'a'):03d}-{_random(n, 10**7, 'b'):07d}",
        "sku": lambda n: f"{_random(n, 1000, 'c'):03d}-{_random(n, 100, 'd'):02d}-{n % 10000:04d}",
        "part": lambda n: (
            f"{_random(n, 1000, 'e'):03d}-{n % 1000:03d}-{_random(n, 10**4, 'f'):04d}"
        ),
        "product": lambda n: (
            f"{'ABXQ'[n % 4]}{'QDVU'[n % 4]}{_random(n, 10**6, 'g'):06d}{'AZ'[n % 2]}"
        ),
        "md5": lambda n: hashlib.md5(str(n).encode(), usedforsecurity=False).hexdigest(),
        "sha1": lambda n: hashlib.sha1(str(n).encode(), usedforsecurity=False).hexdigest(),
        "sha256": lambda n: hashlib.sha256(str(n).encode()).hexdigest(),
        "uuid": lambda n: str(uuid.uuid5(uuid.NAMESPACE_DNS, f"u{n}")),
        "fingerprint": lambda n: _grouped(
            hashlib.sha1(str(n).encode(), usedforsecurity=False).hexdigest(), 2, ":"
        ),
        "seconds": lambda n: 1_700_000_000 + n * 977,
        "milliseconds": lambda n: 1_700_000_000_000 + n * 977_123,
        "nanoseconds": lambda n: f"{1_700_000_000_000_000_000 + n * 977_123_456_789}",
        "time": lambda n: f"2024-{n % 12 + 1:02d}-{n % 28 + 1:02d} {n % 24:02d}:{n % 60:02d}:11",
        "zoned": lambda n: (
            f"2024-{n % 12 + 1:02d}-{n % 28 + 1:02d}T{n % 24:02d}:00:11.123456+02:00"
        ),
        "clock": lambda n: f"{n % 24:02d}:{n % 60:02d}:{n * 7 % 60:02d}",
        "compact_time": lambda n: f"2024{n % 12 + 1:02d}{n % 28 + 1:02d}{n % 24:02d}{n % 60:02d}11",
        "version": lambda n: f"{n % 9}.{n % 17}.{n % 23}.{n % 5}",
        "build": lambda n: f"10.0.{19000 + n}.{n * 13 % 4000}",
        "tag": lambda n: f"v{n % 9}.{n % 200}.{n % 230}.{n % 250}",
        "semantic": lambda n: f"{n % 9}.{n % 17}.{n % 23}-rc.{n % 4}",
        "package": lambda n: f"@scope{n % 5}/tool@{n % 9}.{n % 17}.{n}",
        "repository": lambda n: f"git@code.example.org:team{n % 7}/tool{n}.git",
        "image": lambda n: f"icons/logo{n}@2x.png",
        "handle": lambda n: f"@user{n}",
        "function": lambda n: f"std::vec{n}::push",
        "price": lambda n: f"{n * 37 % 9973}.{n % 100:02d} EUR",
        "signed": lambda n: f"+{_random(n, 10**8, 'h') / 1000:.3f}",
        "integer": lambda n: _random(n, 10**6, "i"),
        "large": lambda n: 10**10 + _random(n, 9 * 10**10, "j"),
        "large_text": lambda n: f"{10**10 + _random(n, 9 * 10**10, 'k')}",
        "serial_text": lambda n: f"{10**9 + n}",
        "nine": lambda n: 10**8 + _random(n, 9 * 10**8, "l"),
        "float": lambda n: _random(n, 10**9, "m") / 1e7 - 50,
        "float_text": lambda n: f"{_random(n, 10**12, 'n') / 1e7:.7f}",
        "vector": lambda n: f"[{n / 977:.5f}, {n / 783:.5f}, {n / 811:.5f}]",
        "unit_pair": lambda n: f"{_random(n, 10**5, 'o') / 1e5:.5f}, {n / 500:.5f}",
        "pixels": lambda n: f"{n % 1920}, {n * 7 % 1080}",
        "lat": lambda n: _random(n, 10**5, "p") / 1e3,
        "isbn": lambda n: f"978-3-16-{_random(n, 10**6, 'q'):06d}-{n % 10}",
        "ean": lambda n: f"{40 + n % 4}{_random(n, 10**11, 'r'):011d}",
        "iso": lambda n: (
            f"{('DE', 'FR', 'XX', 'ZZ')[n % 4]}{n % 100:02d}{_random(n, 10**18, 's'):018d}"
        ),
        "flight": lambda n: f"{('LH', 'UA', 'BA')[n % 3]}{n % 9999}",
        "plate": lambda n: f"M-AB {n % 9999}",
        "phrase": _sentence,
        "page": lambda n: f"see page {n} of {n * 3} in volume {n % 12}",
        "town": lambda n: towns[n % len(towns)],
        "company": lambda n: (
            f"{('Delta', 'United', 'Alpine', 'Global')[n % 4]} {('Air', 'Works', 'Foods')[n % 3]}"
        ),
        "title": lambda n: _sentence(n).title(),
        "colour": lambda n: ("red", "green", "dark blue")[n % 3],
        "hex_colour": lambda n: f"#{_random(n, 1 << 24, 't'):06x}",
        "ratio": lambda n: f"{n % 100}:{n % 7}:{n % 3}",
        "path": lambda n: f"/var/log/app-{n:08d}/2024-01-{n % 28 + 1:02d}.log",
        "address": lambda n: f"http://example.org/items/{n:010d}?page={n % 9}",
        "base64": lambda n: hashlib.sha256(str(n).encode()).hexdigest()[:20].swapcase() + "==",
        "name": lambda n: (
            f"{('Steel', 'Oak', 'Glass')[n % 3]} {('Table', 'Chair', 'Lamp')[n // 3 % 3]}"
        ),
        "file_name": lambda n: f"scan{n:06d}.tif",
        "mobile": lambda n: n % 2,
        "cell": lambda n: f"A{n}",
        "position": lambda n: n,
        "passport_checked": lambda n: ("yes", "no")[n % 2],
        "telemetry": lambda n: 300_000_000 + _random(n, 10**8, "u"),
    }
    for name, make in made.items():
        yield Planted(name, [make(row) for row in range(ROWS)], None)
