"""Sampled rows of the report, against plain Python."""

from __future__ import annotations

import collections
import json
import re
from collections.abc import Sequence

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.analysis.report import render_report
from beam_pipelines.analysis.report.sampled import EncodedFeature
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.encodings.apply import encode_batch
from beam_pipelines.encodings.plan import EncodePlan
from beam_pipelines.encodings.planner import plan_encode
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.pipeline.sampled_rows import describe_sample
from beam_pipelines.transforms.fit import fit_batch
from tests.support.report_examples import EVIL, report

WORDS = st.lists(st.sampled_from(["a", "b", "c", "d", None]), min_size=1, max_size=30)


def fitted(encode: str, batch: pa.RecordBatch) -> EncodePlan:
    """Returns encodings fitted on a batch."""
    text = f"name: d\nsources: {{t: {{path: t.csv}}}}\nencode: {encode}\n"
    return fit_batch(plan_encode(parse_recipe(text, "."), batch.schema), batch, "here")


def chunks_of(
    plan: EncodePlan, splits: dict[str, Sequence[pa.RecordBatch]]
) -> tuple[list[Chunk], list[Chunk]]:
    """Returns raw and encoded chunks, one for each batch."""
    raw = [
        Chunk(number, 0, batch, {}, split=split)
        for split, batches in splits.items()
        for number, batch in enumerate(batches)
    ]
    encoded = [chunk._replace(batch=encode_batch(plan, chunk.batch, "t.csv")) for chunk in raw]
    return raw, encoded


def described(plan: EncodePlan, **splits: Sequence[pa.RecordBatch]) -> dict[str, EncodedFeature]:
    found, _ = describe_sample(plan, list(splits), *chunks_of(plan, splits))
    return {one.name: one for one in found.encodings}


def cells(feature: EncodedFeature) -> dict[str, list[str]]:
    return {name: [cell.text for cell in line] for name, line in feature.table.lines}


@given(WORDS.filter(any), WORDS, st.integers(1, 3), st.integers(0, 2))
def test_coverage_of_a_vocabulary(
    train: list[str | None], test: list[str | None], top_k: int, num_oov: int
) -> None:
    """Shares are those that Python counts; an alert names ids of -1."""
    first, second = (pa.record_batch({"word": pa.array(x, pa.string())}) for x in (train, test))
    encode = f"{{id: [{{column: word}}, {{vocabulary: {{top_k: {top_k}, num_oov: {num_oov}}}}}]}}"
    plan = fitted(encode, first)
    counts = collections.Counter(word for word in train if word)
    known = sorted(counts, key=lambda word: (counts[word], word), reverse=True)[:top_k]
    splits = {"train": [first], "test": [second]}
    found, _ = describe_sample(plan, list(splits), *chunks_of(plan, splits))
    lines, alerts = cells(found.encodings[0]), []
    for split, words in enumerate((train, test)):
        values = [word for word in words if word]
        unknown = sum(word not in known for word in values)
        share = f"{100 * unknown / len(values):.1f}%" if unknown else "0%"
        assert lines["Out of vocabulary"][split] == share.replace("100.0%", "100%")
        assert lines["Texts in the vocabulary"][split] == str(len(known))
        if unknown and not num_oov:
            alerts.append(f"{unknown} of {len(values)} sampled values of {list(splits)[split]}")
    assert [alert.found.partition(" are -1;")[0] for alert in found.alerts] == alerts


def test_ids_of_a_vocabulary_are_shown_with_their_texts() -> None:
    """The chart after an encoding has the texts of its ids."""
    batch = pa.record_batch({"word": ["SALE", "SALE", "NEW", None]})
    plan = fitted("{id: [{column: word}, {vocabulary: {num_oov: 1}}]}", batch)
    shown = re.findall("<bdi>(.*?)</bdi>", described(plan, train=[batch])["id"].after)
    assert shown[:2] == ["0 (SALE)", "1 (NEW)"]


def test_what_is_shown_of_an_encoding() -> None:
    """Charts are those before and after, figures those after."""
    batch = pa.record_batch({"x": [1.0, None, 3.0, 5.0], "unused": [1, 2, 3, 4]})
    plan = fitted("{x: [{fill: 3}, z_score]}", batch)
    one = described(plan, train=[batch], eval=[batch.slice(0, 0)])["x"]
    assert (one.columns, one.steps, one.type) == (("x",), ("fill", "z_score"), "float32")
    assert re.findall("<bdi>(.*?)</bdi>", one.before) == ["1", "3", "5"]
    lines = cells(one)
    assert lines["Missing"] == ["0", "0"]
    assert lines["Std. deviation"] == ["1", "–"]


def test_a_vocabulary_after_another_chain() -> None:
    """The vocabulary's input is that of its step, whatever replaces it later."""
    batch = pa.record_batch({"word": ["A", "a", "b"], "n": [1, 2, 3]})
    encode = (
        "{low: [{column: word}, {vocabulary: {top_k: 2}}], "
        "word: [{fill: A}, {hash_bucket: 5}], n: z_score}"
    )
    found = described(fitted(encode, batch), train=[batch])
    assert cells(found["low"])["Out of vocabulary"] == ["33.3%"]
    assert found["low"].columns == ("word",)
    assert list(found) == ["low", "word", "n"]


def test_order_of_chunks_does_not_matter() -> None:
    """Any order of the sampled chunks gives the same description."""
    parts = [pa.record_batch({"x": [float(n), 2.0 * n]}) for n in range(5)]
    plan = fitted("{x: z_score}", parts[1])
    raw, encoded = chunks_of(plan, {"train": parts, "eval": parts[:2]})
    names = ["train", "eval"]
    expected, _ = describe_sample(plan, names, raw, encoded)
    assert describe_sample(plan, names, raw[::-1], encoded[3:] + encoded[:3])[0] == expected
    assert expected.rows == 14


def test_many_rows_are_thinned() -> None:
    """At most 20,000 rows are described, of all splits in proportion."""
    batch = pa.record_batch({"x": [float(n) for n in range(30_000)]})
    plan = fitted("{x: min_max}", batch)
    found, _ = describe_sample(plan, ["train", "eval"], *chunks_of(plan, {"train": [batch], "eval": [batch.slice(0, 3000)]}))  # fmt: skip
    assert found.rows == 16_500
    assert cells(found.encodings[0])["Present"] == ["15,000", "1,500"]


def test_ten_rows_of_all_splits() -> None:
    """Ten rows are shown, of each split by its share."""
    batch = pa.record_batch(
        {"x": [float(n) for n in range(80)], "t": ["é" * 90, None] * 40, "b": [b"\0\1"] * 80}
    )
    plan = fitted("{y: [{column: x}, z_score]}", batch)
    chunks = chunks_of(plan, {"train": [batch], "eval": [batch.slice(0, 20)], "none": []})
    found = describe_sample(plan, ["train", "eval", "none"], *chunks)[0].examples
    assert found.names == ("x", "t", "b", "y")
    assert [one.split for one in found.rows] == ["train"] * 8 + ["eval"] * 2
    (x, text, data, new), raw = found.rows[1].cells, batch.to_pylist()[10]
    assert x == ("10", "10")
    assert text == (f"{raw['t'][:79]}…", f"{raw['t'][:79]}…")
    assert data == ("2 bytes", "2 bytes")
    assert new[0] is None
    plain = fitted("{x: drop, t: {vocabulary: 1}}", batch)
    found = describe_sample(plain, ["train"], *chunks_of(plain, {"train": [batch]}))[0].examples
    assert found.rows[0].cells[0] == ("0", None)
    assert found.rows[0].cells[1][1] == f"0 ({'é' * 60}…)"


@given(WORDS, WORDS)
def test_repeats(train: list[str | None], test: list[str | None]) -> None:
    """Rows that equal an earlier one are counted over all splits."""
    splits = {
        name: [pa.record_batch({"word": pa.array(words, pa.string()), "same": [1] * len(words)})]
        for name, words in (("train", train), ("test", test))
    }
    plan = fitted("{same: z_score}", splits["train"][0])
    found, _ = describe_sample(plan, list(splits), *chunks_of(plan, splits))
    assert found.compared == len(train) + len(test)
    assert found.repeats == found.compared - len({*train, *test})


def test_nothing_is_encoded() -> None:
    """Without encodings there is no section of them."""
    batch = pa.record_batch({"x": [1], "y": [2]})
    plan = fitted("{x: drop}", batch)
    found, _ = describe_sample(plan, ["train"], *chunks_of(plan, {"train": [batch]}))
    assert found.encodings == ()
    assert 'id="encodings"' not in render_report(report(sampled=found))
    assert describe_sample(plan, ["train"], [], [])[0].rows == 0


def test_names_are_escaped() -> None:
    """Names of columns and features are text in the page."""
    batch = pa.record_batch({EVIL: ["a", "<b>"]})
    text = json.dumps({f"feature {EVIL}": [{"column": EVIL}, {"vocabulary": 1}]})
    plan = fitted(text, batch)
    found, _ = describe_sample(plan, ["train"], *chunks_of(plan, {"train": [batch]}))
    page = render_report(report(sampled=found))
    assert 'id="encodings"' in page
    assert page.count("<script>") == 1
    assert "<bdi><b></bdi>" not in page
    assert "<bdi>&lt;b&gt;</bdi>" in page
