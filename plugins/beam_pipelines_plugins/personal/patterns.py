"""Patterns of personal data, and checks of what they match."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines_plugins.personal import checksums
from beam_pipelines_plugins.personal.names import words_in

Mask = npt.NDArray[np.bool_]

_BEFORE = r"(?:^|[^0-9A-Za-z])"
_AFTER = r"(?:$|[^0-9A-Za-z])"
# Letters outside ASCII; RE2 is fifty times as slow with \pL in a repetition.
_FOREIGN = r"\x{80}-\x{10FFFF}"
# Not before another digit group of a number, a version or a time.
_AFTER_NUMBER = r"(?:$|[^0-9A-Za-z.,:-]|[.,:](?:$|[^0-9]))"


class Pattern(NamedTuple):
    """A pattern of one kind of personal data.

    Attributes:
      kind: of personal data.
      value: RE2's pattern of a value.
      before, after: patterns of the text around it.
      needs: the least counts of characters in a text with such a value.
      check: of texts that the pattern matched.
      least: the least share of the values of this shape that have to be right; other columns have
        values of this shape by chance.
      hints: words in the name of a column that may have the pattern; none: any column.
      others: words in the name of a column that has something else of this shape.
      may_be_number: whether integers are tried, too.
    """

    kind: str
    value: str
    needs: Mapping[str, int]
    # Returns which texts have a value of this shape, and which have one that is right.
    check: Callable[[Pattern, pa.Array], tuple[Mask, Mask]]
    before: str = _BEFORE
    after: str = _AFTER
    least: float = 0.5
    hints: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()
    may_be_number: bool = False

    @property
    def whole(self) -> str:
        """The pattern of the value and the text around it."""
        return f"{self.before}(?:{self.value}){self.after}"

    def values_of(self, texts: pa.Array) -> pa.Array:
        """Returns the first value in each text that the pattern matched."""
        is_value = matches(texts, f"^(?:{self.value})$")
        if is_value.all():
            return texts
        # A pattern with a group takes ten times as long.
        rest = np.flatnonzero(~is_value)
        pattern = f"{self.before}(?P<v>{self.value}){self.after}"
        found = pc.struct_field(pc.extract_regex(texts.take(pa.array(rest)), pattern), "v")
        return pc.replace_with_mask(texts, pa.array(~is_value), found)


Check = Callable[[Pattern, pa.Array], tuple[Mask, Mask]]


def matches(texts: pa.Array, pattern: str) -> Mask:
    """Returns bool[n], whether texts match; a null does not."""
    found = pc.fill_null(pc.match_substring_regex(texts, pattern), False)
    mask: Mask = found.to_numpy(zero_copy_only=False)
    return mask


def _without(texts: pa.Array, *characters: str) -> pa.Array:
    for character in characters:
        texts = pc.replace_substring(texts, character, "")
    return texts


def _all(_: Pattern, texts: pa.Array) -> tuple[Mask, Mask]:
    """Every value that matches is right."""
    found = np.ones(len(texts), bool)
    return found, found


def _if(right: str, wrong: str = "") -> Check:
    """Returns the check of texts by patterns."""

    def check(pattern: Pattern, texts: pa.Array) -> tuple[Mask, Mask]:
        found = matches(texts, f"{pattern.before}{right}{pattern.after}")
        is_wrong = matches(texts, wrong) if wrong else False
        return np.ones(len(texts), bool), found & ~np.asarray(is_wrong)

    return check


def _if_sum(shape: str, is_right: Callable[[pa.Array], Mask], *signs: str) -> Check:
    """Returns the check of values of a shape by a check digit."""

    def check(pattern: Pattern, texts: pa.Array) -> tuple[Mask, Mask]:
        values = _without(pattern.values_of(texts), *signs)
        shaped = matches(values, shape)
        right = np.zeros(len(texts), bool)
        right[shaped] = is_right(values.filter(pa.array(shaped)))
        return shaped, right

    return check


_IBAN_LENGTHS = (
    "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18 "
    "DO28 EE20 EG29 ES24 FI18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 "
    "IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 "
    "MR27 MT31 MU30 NL18 NO15 PK24 PL28 PS29 PT25 QA29 RO24 RS22 SA24 SC31 SE24 SI19 SK24 "
    "SM27 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 "
)
_COUNTRIES = pa.array([entry[:2] for entry in _IBAN_LENGTHS.split()])
_LENGTHS = np.array([int(entry[2:]) for entry in _IBAN_LENGTHS.split()] + [0])


def _ibans(pattern: Pattern, texts: pa.Array) -> tuple[Mask, Mask]:
    plain = _without(pattern.values_of(texts), " ")
    places = pc.index_in(pc.utf8_slice_codeunits(plain, 0, 2), _COUNTRIES)
    wanted = _LENGTHS[pc.fill_null(places, -1).to_numpy()]
    # A word after it may look like a group of four.
    shaped = (wanted > 0) & (pc.binary_length(plain).to_numpy() >= wanted)
    right = np.zeros(len(texts), bool)
    for length in np.unique(wanted[shaped]):
        own = np.flatnonzero(shaped & (wanted == length))
        values = pc.utf8_slice_codeunits(plain.take(pa.array(own)), 0, int(length))
        right[own] = checksums.mod_97(values)
    return shaped, right


_CARD = (
    r"^(?:4(?:[0-9]{12}|[0-9]{15}|[0-9]{18})|5[1-5][0-9]{14}|3[47][0-9]{13}"
    r"|2(?:22[1-9]|2[3-9][0-9]|[3-6][0-9]{2}|7[01][0-9]|720)[0-9]{12}"
    r"|3(?:0[0-5]|[689][0-9])[0-9]{11}|35(?:2[89]|[3-8][0-9])[0-9]{12}"
    r"|6(?:011|5[0-9]{2}|4[4-9][0-9])[0-9]{12}|62[0-9]{14,17})$"
)
# Versions of programs have small numbers; an address has one of at least 32, but for few.
_BYTE = r"(?:[0-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])"
_LARGE_BYTE = r"(?:3[2-9]|[4-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])"
_HEX = r"[0-9A-Fa-f]{1,4}"


def _ip4(pattern: Pattern, texts: pa.Array) -> tuple[Mask, Mask]:
    values = pattern.values_of(texts)
    right = matches(values, rf"^{_BYTE}(?:\.{_BYTE}){{3}}$")
    return np.ones(len(texts), bool), right & matches(values, rf"(?:^|\.){_LARGE_BYTE}(?:\.|$)")


def _ip6(pattern: Pattern, texts: pa.Array) -> tuple[Mask, Mask]:
    values = pattern.values_of(texts)
    is_full = matches(values, rf"^(?:{_HEX}:){{7}}{_HEX}$")
    is_short = matches(values, rf"^{_HEX}(?::{_HEX})*::{_HEX}(?::{_HEX})*$")
    colons = pc.count_substring(values, ":").to_numpy()
    # Names of C++ have colons, too, and fingerprints have pairs.
    is_address = matches(values, "[0-9A-Fa-f]{3}") & matches(values, "[0-9]")
    right = (is_full | (is_short & (colons <= 7))) & is_address
    return right, right


_SSN = (
    r"(?:00[1-9]|0[1-9][0-9]|[1-578][0-9]{2}|6[0-57-9][0-9]|66[0-57-9])[ -]?"
    r"(?:0[1-9]|[1-9][0-9])[ -]?(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
)


_FILE = (
    r"(?i)@[^ ]*\.(?:png|jpe?g|gif|svg|webp|css|js|mjs|json|zip|tar|gz|whl|txt|py|html)(?:$|[^a-z])"
)


def _emails(_: Pattern, texts: pa.Array) -> tuple[Mask, Mask]:
    right = ~matches(texts, _FILE)
    return right, right


_PHONE = words_in(
    "phone telephone telefon tel mobile mobil handy cell cellphone fax telefonnummer "
    "phonenumber handynummer rufnummer msisdn whatsapp"
)
_VERSION = words_in("version versions ver build release firmware revision")
_SOCIAL = words_in("ssn socialsecurity social socialsecuritynumber")

# Of one kind, the tests by column name come first: a row counts for the first that finds it.
PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        "email",
        rf"[A-Za-z0-9_%+-]@(?:[0-9A-Za-z{_FOREIGN}-]+\.)+[A-Za-z{_FOREIGN}]{{2,}}",
        {"ats": 1, "dots": 1},
        _emails,
        before="",
        after=r"(?:$|[^0-9A-Za-z.:@-]|[.:](?:$|[^0-9A-Za-z]))",
    ),
    Pattern(
        "phone",
        r"[+(]{0,2}[0-9](?:[ ()./-]{0,3}[0-9]){6,14}(?: ?(?:x|ext\.?) ?[0-9]{1,6})?",
        {"digits": 7},
        _all,
        hints=_PHONE,
        may_be_number=True,
        before="^",
        after="$",
    ),
    Pattern(
        "phone",
        r"\+[1-9][0-9 ()./-]{6,22}[0-9]",
        {"digits": 8},
        _if(
            r"\+[1-9](?:[ ()./-]{0,3}[0-9]){7,14}",
            r"(?:^|[^0-9A-Za-z])\+[0-9]+\.[0-9]+(?:$|[^.0-9-])",
        ),
        after=_AFTER_NUMBER,
    ),
    Pattern(
        "phone",
        r"(?:1[ .-])?(?:\([0-9]{3}\) ?|[0-9]{3}[ .-])[0-9]{3}[ .-][0-9]{4}",
        {"digits": 10},
        _if(r"(?:1[ .-])?\(?[2-9][0-9]{2}[) .-]{1,2}[2-9][0-9]{2}[ .-][0-9]{4}"),
        after=_AFTER_NUMBER,
        least=0.95,
    ),
    Pattern(
        "phone",
        r"(?i:(?:tel|telephone|telefon|phone|fax|mobile?|handy|call)[.:]{0,2} ?)"
        r"[0(](?:[ ()./-]{0,2}[0-9]){6,14}",
        {"digits": 7},
        _all,
        before="(?:^|[^A-Za-z])",
        after=_AFTER_NUMBER,
    ),
    Pattern(
        "phone",
        r"0[1-9][0-9]{1,4}[ /][1-9][0-9]{2,3} ?[0-9]{2,6}",
        {"digits": 7},
        _all,
        before="^",
        after="$",
    ),
    Pattern(
        "iban",
        r"[A-Z]{2}[0-9]{2}(?:[0-9A-Z]{11,30}|(?: [0-9A-Z]{4}){2,7}(?: [0-9A-Z]{1,4})?)",
        {"digits": 8},
        _ibans,
    ),
    Pattern(
        "card",
        r"[2-6][0-9]{3}[ -]?[0-9]{4}[ -]?[0-9]{4}[ -]?[0-9]{1,4}[ -]?[0-9]{0,3}"
        r"|3[0-9]{3}[ -][0-9]{6}[ -][0-9]{4,5}",
        {"digits": 13},
        _if_sum(_CARD, checksums.luhn, " ", "-"),
        before="(?:^|[^0-9A-Za-z.-])",
        after=_AFTER_NUMBER,
        may_be_number=True,
    ),
    Pattern(
        "ip_address",
        r"[0-9]{1,5}(?:\.[0-9]{1,5}){3}",
        {"digits": 4, "dots": 3},
        _ip4,
        before="(?:^|[^0-9A-Za-z.])",
        after=r"(?:$|[^0-9A-Za-z.]|\.(?:$|[^0-9]))",
        others=_VERSION,
    ),
    Pattern(
        "ip_address",
        rf"{_HEX}(?::{{1,2}}{_HEX}){{2,7}}|{_HEX}::{_HEX}",
        {"digits": 1, "colons": 2},
        _ip6,
        before="(?:^|[^0-9A-Za-z:.])",
        after="(?:$|[^0-9A-Za-z:])",
    ),
    Pattern(
        "us_ssn",
        r"[0-9]{3} ?[0-9]{2} ?[0-9]{4}",
        {"digits": 9},
        _if(_SSN),
        least=0.8,
        hints=_SOCIAL,
        may_be_number=True,
        before="^",
        after="$",
    ),
    Pattern(
        "us_ssn",
        "[0-9]{3}-[0-9]{2}-[0-9]{4}",
        {"digits": 9, "dashes": 2},
        _if(_SSN),
        before="(?:^|[^0-9A-Za-z-])",
        after="(?:$|[^0-9A-Za-z-])",
        least=0.97,
    ),
)
