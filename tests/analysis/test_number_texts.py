"""Texts are integers by a rule without bounds on their length."""

from __future__ import annotations

import re

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.analysis.anomalies.rules.texts import integers

ENDS = [text for end in (2**63, -(2**63)) for text in (str(end), str(end - 1), str(end + 1))]
TEXTS = st.text("019-+ \n\v٣", max_size=22) | st.sampled_from([*ENDS, "1" * 5_000, "0" * 5_000])


@given(st.lists(TEXTS | st.builds("{}{}{}".format, st.sampled_from("-+ 0"), TEXTS, TEXTS)))
def test_integers_are_those_within_int64(texts: list[str]) -> None:
    """A text has an integer's value, however many digits there are."""

    def value(text: str) -> int | None:
        match = re.fullmatch(r"[\s\v]*([+-]?)0*([0-9]*)[\s\v]*", text, re.ASCII)
        if not match or not re.search("[0-9]", text) or len(match[2]) > 20:
            return None
        number = int(match[1] + "0" + match[2])
        return number if -(2**63) <= number < 2**63 else None

    assert integers(pa.array(texts, pa.string())).to_pylist() == list(map(value, texts))
