"""Names of columns with personal data, and a vocabulary of names."""

from __future__ import annotations

import re
from importlib import resources

import pyarrow as pa

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")


def words_in(text: str) -> frozenset[str]:
    """Returns the words of a text."""
    return frozenset(text.split())


_ROLES = words_in(
    "account cardholder client contact customer employee guest holder member passenger "
    "patient person recipient sender student subscriber teacher traveller traveler user voter"
)
_PARTS = words_in("first last middle given family full sur fore maiden nick")
_NAMES = words_in(
    "firstname lastname surname familyname givenname forename fullname middlename maidenname "
    "vorname nachname familienname geburtsname prenom nombre apellido apellidos cognome"
)
# Columns whose values often have a given name in them, and are none.
_PLACES_AND_THINGS = words_in(
    "airport album artwork band book borough brand cemetery church city company country county "
    "district employer film firm hotel hospital make manufacturer model movie municipality "
    "neighborhood neighbourhood ort park place port product publisher region restaurant school "
    "shop show song stadium stadt state station store street strasse suburb supplier team title "
    "town track university vendor venue village"
)
_OF_THINGS = words_in("birth destination from home local main name names of origin the to")


def words_of(column: str) -> frozenset[str]:
    """Returns the words of a column's name, in small letters.

    Underscores, other signs and capital letters begin a word: ``homePhone`` is ``home`` and
    ``phone``.
    """
    return frozenset(word.lower() for word in _WORD.findall(column))


def names_persons(words: frozenset[str]) -> bool:
    """Whether a column's name says that it has names of persons."""
    return bool(words & _NAMES or ("name" in words and words & (_ROLES | _PARTS)))


def names_things(words: frozenset[str]) -> bool:
    """Whether a column's name names places or things, not persons.

    A ``store`` is one; a ``store_manager`` is not.
    """
    return bool(words & _PLACES_AND_THINGS) and words <= _PLACES_AND_THINGS | _OF_THINGS


# Frequent given names of Europe and America, without accents.
_FILE = resources.files(__package__) / "given_names.txt"
GIVEN_NAMES: pa.Array = pa.array(_FILE.read_text("utf-8").split())
