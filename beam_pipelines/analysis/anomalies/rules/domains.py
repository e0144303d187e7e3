"""Rules for values: int, float, bool and string domains."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tensorflow_metadata.proto.v0 import schema_pb2, statistics_pb2

from beam_pipelines.analysis.anomalies.rules import reason, texts
from beam_pipelines.analysis.statistics.numeric import NumberStatistics
from beam_pipelines.analysis.statistics.text import TextStatistics
from beam_pipelines.analysis.statistics.view import FeatureView
from beam_pipelines.core.layout.schema_features import Domains

# A reason names at most so many unexpected texts, the most frequent; TFDV names all.
_NAMED_VALUES = 20
_DOMAINS_OF_BYTES = (None, "natural_language_domain", "image_domain", "url_domain")
_OUT_OF_RANGE = "Out-of-range values"
_INVALID = "Invalid values"
_NOT_BOOLEAN = "Non-boolean values"


def domain_findings(
    feature: schema_pb2.Feature, view: FeatureView, domains: Domains
) -> Iterator[reason.Reason]:
    """Yields the findings about a feature's values.

    The feature has the schema's type and is present in some row.
    """
    kind = feature.WhichOneof("domain_info")
    if view.type == statistics_pb2.FeatureNameStatistics.BYTES and kind not in _DOMAINS_OF_BYTES:
        text = str(feature).replace("\n", " ").strip()
        yield reason.Reason(
            reason.Info.DOMAIN_INVALID_FOR_TYPE,
            "Invalid domain type",
            f"Data is marked as BYTES with incompatible domain_info: {text}",
            f"text, for {kind}",
            "bytes",
            reason.clear_domain,
        )
    elif view.num_values and kind in _FINDINGS_FOR_DOMAIN:
        yield from _FINDINGS_FOR_DOMAIN[kind](feature, view, domains)


def domain_values(feature: schema_pb2.Feature, domains: Domains) -> list[str]:
    """Returns the texts that a feature's string domain allows."""
    if feature.HasField("string_domain"):
        return list(feature.string_domain.value)
    return [value for domain in domains.get(feature.domain, ()) for value in domain.value]


def truth_values(domain: schema_pb2.BoolDomain) -> list[str]:
    """Returns the texts that a bool domain allows."""
    return sorted(
        getattr(domain, field) for field in ("true_value", "false_value") if domain.HasField(field)
    )


def in_domain(values: pa.Array, allowed: list[str]) -> texts.Mask:
    """Returns bool[n]: whether each text is allowed."""
    known: texts.Mask = pc.is_in(values, pa.array(allowed, values.type)).to_numpy(
        zero_copy_only=False
    )
    return known


def _int_findings(
    feature: schema_pb2.Feature, view: FeatureView, _: Domains
) -> Iterator[reason.Reason]:
    least, most = view.numbers.minimum, view.numbers.maximum
    if view.strings is not None:
        bad = _first_text(view.strings, ~texts.are_integers(view.strings.values))
        if bad is not None:
            yield reason.Reason(
                reason.Info.INT_TYPE_NOT_INT_STRING,
                _INVALID,
                f'String values that were not ints were found, such as "{bad}".',
                "integers as text",
                f"'{bad}'",
                reason.clear_domain,
            )
            return
        least, most = pc.min_max(texts.integers(view.strings.values)).as_py().values()
    yield from _range_findings(feature, "int_domain", least, most)


_RANGE = {
    "int_domain": (
        (reason.Info.INT_TYPE_SMALL_INT, "Unexpectedly small value: {value}."),
        (reason.Info.INT_TYPE_BIG_INT, "Unexpectedly large value: {value}."),
    ),
    "float_domain": (
        (reason.Info.FLOAT_TYPE_SMALL_FLOAT, "Unexpectedly low values: {value}<{limit}{six}"),
        (reason.Info.FLOAT_TYPE_BIG_FLOAT, "Unexpectedly high value: {value}>{limit}{six}"),
    ),
}


def _range_findings(
    feature: schema_pb2.Feature, kind: str, least: float | None, most: float | None
) -> Iterator[reason.Reason]:
    domain, six = getattr(feature, kind), "(upto six significant digits)"
    ends = (("min", "at least", least, operator.lt), ("max", "at most", most, operator.gt))
    for (bound, words, value, is_beyond), (type_, text) in zip(ends, _RANGE[kind], strict=True):
        limit = getattr(domain, bound)
        if value is not None and domain.HasField(bound) and is_beyond(value, limit):
            shown, end = reason.number_text(value), reason.number_text(limit)
            yield reason.Reason(
                type_,
                _OUT_OF_RANGE,
                text.format(value=shown, limit=end, six=six),
                f"{words} {end}",
                shown,
                reason.assign(value, kind, bound),
            )


def _float_findings(
    feature: schema_pb2.Feature, view: FeatureView, _: Domains
) -> Iterator[reason.Reason]:
    domain = feature.float_domain
    # Bounds are 32 bits wide: compared in 64, a bound of 0.1 would be above the value 0.1.
    with np.errstate(over="ignore"):
        least, most = (
            None if bound is None else float(np.float32(bound))
            for bound in (view.numbers.minimum, view.numbers.maximum)
        )
    nans = view.numbers.nans
    if view.strings is not None:
        bad = _first_text(view.strings, ~texts.are_floats(view.strings.values))
        if bad is not None:
            yield reason.Reason(
                reason.Info.FLOAT_TYPE_STRING_NOT_FLOAT,
                _INVALID,
                f'String values that were not floats were found, such as "{bad}".',
                "numbers as text",
                f"'{bad}'",
                reason.clear_domain,
            )
            return
        numbers = texts.floats(view.strings.values)
        nans = int(view.strings.counts[np.isnan(numbers)].sum())
        numbers = numbers[~np.isnan(numbers)]
        least, most = (float(numbers.min()), float(numbers.max())) if len(numbers) else (None, None)
    if domain.disallow_nan and nans:
        yield reason.Reason(
            reason.Info.FLOAT_TYPE_HAS_NAN,
            _INVALID,
            "Float feature has NaN values.",
            "no NaN",
            f"{nans:,} NaN",
            reason.assign(False, "float_domain", "disallow_nan"),
        )
    yield from _range_findings(feature, "float_domain", least, most)
    infinite = [bound for bound in (least, most) if bound is not None and np.isinf(bound)]
    if domain.disallow_inf and infinite:
        yield reason.Reason(
            reason.Info.FLOAT_TYPE_HAS_INF,
            _INVALID,
            "Float feature has Inf values.",
            "no infinities",
            ", ".join(map(reason.number_text, infinite)),
            reason.assign(False, "float_domain", "disallow_inf"),
        )


def _bool_findings(
    feature: schema_pb2.Feature, view: FeatureView, _: Domains
) -> Iterator[reason.Reason]:
    if view.strings is not None:
        allowed = truth_values(feature.bool_domain)
        bad = _first_text(view.strings, ~in_domain(view.strings.values, allowed))
        if bad is not None:
            names = '{"' + '", "'.join(allowed) + '"}' if allowed else "{}"
            yield reason.Reason(
                reason.Info.BOOL_TYPE_UNEXPECTED_STRING,
                _NOT_BOOLEAN,
                f'Saw unexpected value "{bad}" instead of {names}.',
                names,
                f"'{bad}'",
                reason.clear_domain,
            )
    elif feature.type == schema_pb2.INT:
        yield from _bool_int_findings(view)
    else:
        yield from _bool_float_findings(view)


def _bool_int_findings(view: FeatureView) -> Iterator[reason.Reason]:
    for kind, strange, is_strange in (
        (reason.Info.BOOL_TYPE_SMALL_INT, view.numbers.minimum, (view.numbers.minimum or 0) < 0),
        (reason.Info.BOOL_TYPE_BIG_INT, view.numbers.maximum, (view.numbers.maximum or 0) > 1),
    ):
        if strange is not None and is_strange:
            description = (
                f"Integers (such as {strange:.6g}) not in {{0, 1}}: converting to an integer."
            )
            widen = _to_range("int_domain", view)
            yield reason.Reason(kind, _NOT_BOOLEAN, description, "0 or 1", str(strange), widen)
            return


def _bool_float_findings(view: FeatureView) -> Iterator[reason.Reason]:
    ends = (view.numbers.minimum, view.numbers.maximum)
    strange = next((bound for bound in ends if bound not in (None, 0, 1)), None)
    if strange is not None:
        found = reason.number_text(strange)
        description = f"Floats (such as {found}) not in {{0, 1}}"
    elif view.numbers.nans:
        found, description = f"{view.numbers.nans:,} NaN", "Floats (such as NaN) not in {0, 1}"
    elif _has_values_between_0_and_1(view.numbers):
        found, description = "values between them", "Float values falling between 0 and 1"
    else:
        return
    description += ": converting to float_domain."
    kind, widen = reason.Info.BOOL_TYPE_UNEXPECTED_FLOAT, _to_range("float_domain", view)
    yield reason.Reason(kind, _NOT_BOOLEAN, description, "0 or 1", found, widen)


def _has_values_between_0_and_1(numbers: NumberStatistics) -> bool:
    """Whether a number is known to be strictly between them."""
    above = np.searchsorted(numbers.values, 0, side="right")
    return bool((numbers.values[above : above + 1] < 1).any())


def _to_range(kind: str, view: FeatureView) -> reason.Widen:
    """Returns the change to the range of the values."""
    domain = (schema_pb2.IntDomain if kind == "int_domain" else schema_pb2.FloatDomain)()
    if view.numbers.minimum is not None and view.numbers.maximum is not None:
        domain.min, domain.max = view.numbers.minimum, view.numbers.maximum
    return partial(_copy_domain, kind, domain)


def _copy_domain(kind: str, domain: Any, feature: schema_pb2.Feature, _: Domains) -> None:
    getattr(feature, kind).SetInParent()
    getattr(feature, kind).CopyFrom(domain)


def _string_findings(
    feature: schema_pb2.Feature, view: FeatureView, domains: Domains
) -> Iterator[reason.Reason]:
    texts = view.strings
    if texts is None:
        return
    allowed = domain_values(feature, domains)
    ordered = _ordered(texts, ~in_domain(texts.values, allowed))
    number = sum(count for _, count in ordered)
    constraints = feature.distribution_constraints
    tolerated = (
        1.0 - constraints.min_domain_mass if feature.HasField("distribution_constraints") else 0.0
    )
    if not number or (tolerated and number / view.num_values <= tolerated):
        return
    named = ", ".join(
        f"{text} ({_share(count, view.num_values)})" for text, count in ordered[:_NAMED_VALUES]
    )
    more = f" and {len(ordered) - _NAMED_VALUES:,} more" if len(ordered) > _NAMED_VALUES else ""
    least = (
        f", at least {100 * constraints.min_domain_mass:.6g}% of the values" if tolerated else ""
    )
    yield reason.Reason(
        reason.Info.ENUM_TYPE_UNEXPECTED_STRING_VALUES,
        "Unexpected string values",
        f"Examples contain values missing from the schema: {named}{more}. ",
        f"one of {len(allowed)} values{least}",
        f"{named}{more}",
        partial(_add_values, values=sorted(text for text, _ in ordered)),
    )


def _add_values(feature: schema_pb2.Feature, domains: Domains, *, values: list[str]) -> None:
    shared = domains.get(feature.domain, ())
    domain = (
        feature.string_domain
        if feature.HasField("string_domain")
        else shared[0]
        if shared
        else None
    )
    if domain is not None:
        known = set(domain.value)  # features may share a domain
        domain.value.extend(value for value in values if value not in known)


def _ordered(values: TextStatistics, chosen: texts.Mask) -> list[tuple[str, int]]:
    """Returns texts and counts in TFDV's order: count, then text, both descending."""
    some = values.values.filter(pa.array(chosen)).to_pylist()
    pairs = zip(some, values.counts[chosen].tolist(), strict=True)
    return sorted(pairs, key=lambda pair: (pair[1], pair[0].encode()), reverse=True)


def _first_text(values: TextStatistics, bad: texts.Mask) -> str | None:
    """Returns the most frequent bad text; ``None`` if there is none."""
    return _ordered(values, bad)[0][0] if bad.any() else None


def _share(count: int, total: int) -> str:
    """Returns ``<1%`` or ``~12%``, as TFDV does."""
    percent = 100 * count / total
    return "<1%" if percent < 1 else f"~{int(percent)}%"


_FINDINGS_FOR_DOMAIN: dict[
    str | None, Callable[[Any, FeatureView, Any], Iterator[reason.Reason]]
] = {
    "int_domain": _int_findings,
    "float_domain": _float_findings,
    "bool_domain": _bool_findings,
    "string_domain": _string_findings,
    "domain": _string_findings,
}
