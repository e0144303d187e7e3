"""Places of features, and comments, in a schema's text."""

from __future__ import annotations

import pytest

from beam_pipelines.analysis.schema.text import feature_lines, has_comments

CURATED = """# What flights look like.
# Owner: the flights team

feature {   # of the airline
  name: "carrier"  # two letters, "IATA" {
  type: BYTES
  # must be there
  presence { min_fraction: 1 min_count: 1 }
  domain: 'carrier'
  drift_comparator { infinity_norm { threshold: 0.1 } }  # agreed on 3 May
}

feature: < name: "dist" type: INT; int_domain: { min: 0, max: 5 } >  # miles
# everyone's
string_domain {
  name: "carrier"
  value: "AA"  # American
  value: "U"
         "A"
}
string_domain { name: "list" value: ["q",
   "r" # R
   ] }
sparse_feature { name: "s" index_feature { name: "i" } value_feature { name: "v" } }  # kept
default_environment: "TRAINING"
tensor_representation_group { key: "" value { tensor_representation { key: "t" value { dense_tensor { column_name: "dist" } } } } }
"""


def test_features_are_found_by_line() -> None:
    """The line on which each feature begins, also a sparse one."""
    assert feature_lines(CURATED) == {"carrier": 4, "dist": 13, "s": 24}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (CURATED, True),
        ('feature { name: "a" } # b', True),
        ("feature { name: \"#a\" annotation { tag: '# b' } }", False),
        ('feature { name: "\\"#a" }', False),
        ("", False),
    ],
)
def test_comments_are_found(text: str, expected: bool) -> None:
    """A number sign in a name is none."""
    assert has_comments(text) == expected
