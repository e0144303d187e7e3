"""Categories that have an order, such as answers of surveys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# Scales between semicolons, each in its order; the words of one rank are alternatives.
_SCALES = """
strongly disagree, totally disagree, completely disagree < disagree < somewhat disagree,
slightly disagree < neutral, undecided, neither, neither agree nor disagree, unsure < somewhat
agree, slightly agree < agree < strongly agree, totally agree, completely agree;
never < rarely, seldom, almost never < sometimes, occasionally < often, frequently, usually <
almost always, very often < always;
very dissatisfied, very unsatisfied < dissatisfied, unsatisfied < somewhat dissatisfied <
neutral, neither, neither satisfied nor dissatisfied < somewhat satisfied < satisfied < very
satisfied;
terrible, awful < very poor, very bad < poor, bad < fair, average, ok, okay < good < very good <
excellent, great;
none < very low < low < medium, moderate, mid, normal, middle < high < very high < critical,
extreme, urgent;
none < minimal < mild, minor < moderate < severe, major, serious < critical, fatal;
very unlikely < unlikely < neutral < likely < very likely;
not at all, not at all important, not important < slightly, slightly important, a little <
moderately, moderately important, somewhat, somewhat important < very, very important, quite <
extremely, extremely important;
xxs < xs < s < m < l < xl < xxl < xxxl;
tiny < small < medium < large < huge;
none < preschool < primary, primary school, elementary < middle school < secondary, secondary
school, high school < some college < associate < bachelor, bachelors, bachelor's < master,
masters, master's < doctorate, phd, doctoral;
bronze < silver < gold < platinum < diamond;
daily < weekly < monthly < quarterly < yearly, annually
"""
_RANKS = tuple(
    {
        " ".join(word.split()): rank
        for rank, words in enumerate(scale.split("<"))
        for word in words.split(",")
    }
    for scale in _SCALES.split(";")
)
_FEWEST, _MOST = 3, 20
# Ranges of numbers: 18-24, 65+, < 18, under 18, 10k to 50k.
_RANGE = re.compile(
    r"(?P<below><=? ?|under |below |up to |less than )?[$€£]?(?P<low>\d[\d,]*(?:\.\d+)?) ?"
    r"(?P<unit>[km])?(?: ?(?:-|–|to) ?[$€£]?\d[\d,.]* ?[km]?| ?\+| and (?:over|above|older)"
    r"| or more)?(?: (?:years|days|months|yrs))?"
    r"|(?:>=? ?|over |above |more than )[$€£]?(?P<above>\d[\d,]*(?:\.\d+)?) ?(?P<above_unit>[km])?"
)
_UNITS = {None: 1, "k": 1_000, "m": 1_000_000}


def in_order(values: Sequence[str]) -> list[str] | None:
    """Returns categories in the order of a scale; ``None`` without one.

    One value may be none of the scale, such as ``Prefer not to say``; it is left out.
    """
    if not _FEWEST <= len(values) <= _MOST:
        return None
    plain = {value: re.sub(r"[\s_]+", " ", value.strip().lower()) for value in values}
    for scale in _RANKS:
        ranks = {value: float(scale[text]) for value, text in plain.items() if text in scale}
        if found := _sorted(ranks, values):
            return found
    return _sorted(_ranges(plain), values)


def _ranges(plain: dict[str, str]) -> dict[str, float]:
    """Returns value -> its place, if some are ranges of numbers."""
    found = {value: match for value, text in plain.items() if (match := _RANGE.fullmatch(text))}
    if all(re.fullmatch(r"[\d,.]+", plain[value]) for value in found):
        return {}
    ranks = {}
    for value, match in found.items():
        unit = _UNITS[match["unit"] or match["above_unit"]]
        number = (match["low"] or match["above"]).replace(",", "")
        ranks[value] = float(number) * unit + (0.5 if match["above"] else 0.0)
        if match["below"]:
            ranks[value] -= 0.5
    return ranks


def _sorted(ranks: dict[str, float], values: Iterable[str]) -> list[str] | None:
    """Returns the values by rank, if nearly all have their own."""
    others = sum(value not in ranks for value in values)
    if len(ranks) < _FEWEST or others > 1 or len({*ranks.values()}) < len(ranks):
        return None
    return sorted(ranks, key=lambda value: ranks[value])
