"""Compares the detection of personal data with presidio-analyzer's recognisers.

Both get the columns of ``plugins/tests/personal/personal_corpus.py``. presidio judges texts, and
not columns: here it finds a kind in a column if it finds it in a text with a score of at least 0.4.
Install presidio-analyzer in an environment of its own and run
``python -m benchmarks.compare_presidio``.
"""

from __future__ import annotations

from presidio_analyzer import predefined_recognizers as known

from plugins.tests.personal.personal_corpus import false_friends, planted_columns

_RECOGNISERS = {
    "email": [known.EmailRecognizer()],
    "phone": [known.PhoneRecognizer(supported_regions=("US", "DE", "GB"))],
    "iban": [known.IbanRecognizer()],
    "card": [known.CreditCardRecognizer()],
    "ip_address": [known.IpRecognizer()],
    "us_ssn": [known.UsSsnRecognizer()],
}
_LEAST_SCORE = 0.4


def kinds_of(values: list[object]) -> set[str]:
    """Returns the kinds that presidio finds in a hundred texts."""
    texts = [str(value) for value in values[:100] if value is not None]
    return {
        kind
        for kind, recognisers in _RECOGNISERS.items()
        for recogniser in recognisers
        if any(
            result.score >= _LEAST_SCORE
            for text in texts
            for result in recogniser.analyze(text, recogniser.supported_entities) or ()
        )
    }


def main() -> None:
    """Prints presidio's recall and precision, and the columns that differ."""
    planted = right = found = 0
    for column in (*planted_columns(), *false_friends()):
        if column.kind is not None and column.kind not in _RECOGNISERS:
            continue
        kinds = kinds_of(column.values)
        planted += column.kind is not None
        right += column.kind in kinds
        found += len(kinds)
        if kinds != {column.kind} - {None}:
            print(f"{column.name}: {sorted(kinds)}, planted {column.kind}; {column.values[7]}")
    print(f"presidio: recall {right / planted:.2f}, precision {right / found:.2f}")


if __name__ == "__main__":
    main()
