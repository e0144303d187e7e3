"""Rules for the schema itself: fields that contradict each other.

They follow TFDV's ``UpdateFeatureSelf``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis.anomalies.rules import reason
from beam_pipelines.core.layout.schema_features import Domains

_INVALID = reason.Info.INVALID_SCHEMA_SPECIFICATION
_ALL_TYPES = (schema_pb2.INT, schema_pb2.FLOAT, schema_pb2.BYTES, schema_pb2.STRUCT)
_TYPES_FOR_DOMAIN = {
    "domain": (schema_pb2.BYTES,),
    "string_domain": (schema_pb2.BYTES,),
    "bool_domain": (schema_pb2.INT, schema_pb2.BYTES, schema_pb2.FLOAT),
    "int_domain": (schema_pb2.INT, schema_pb2.BYTES),
    "float_domain": (schema_pb2.FLOAT, schema_pb2.BYTES),
    "struct_domain": (schema_pb2.STRUCT,),
    "natural_language_domain": (schema_pb2.BYTES,),
    "image_domain": (schema_pb2.BYTES,),
    "mid_domain": (schema_pb2.BYTES,),
    "url_domain": (schema_pb2.BYTES,),
    "time_domain": (schema_pb2.INT, schema_pb2.BYTES),
}


def corrected(
    feature: schema_pb2.Feature, domains: Domains
) -> tuple[schema_pb2.Feature, list[reason.Reason]]:
    """Returns a feature without its contradictions, and their findings.

    It is a copy. Without it, one contradiction would be found again as an anomaly of the data.
    """
    copy = schema_pb2.Feature()
    copy.CopyFrom(feature)
    findings = []
    for finding in _findings(copy, domains):
        finding.widen(copy, domains)
        findings.append(finding)
    return copy, findings


def _findings(feature: schema_pb2.Feature, domains: Domains) -> Iterator[reason.Reason]:
    """Yields the findings in order.

    The caller widens the feature by each before it takes the next.
    """
    if not feature.HasField("type"):
        short = "unspecified type: determine the type and set it, rather than deprecating."
        widen = reason.deprecate
        if feature.WhichOneof("domain_info") in ("domain", "string_domain"):
            short = "unspecified type: inferring the type to be BYTES, given the domain specified."
            widen = reason.assign(schema_pb2.BYTES, "type")
        expected = "a type: INT, FLOAT or BYTES"
        yield _reason(reason.Info.FEATURE_MISSING_TYPE, short, expected, "none", widen)
        if widen is reason.deprecate:
            return
    yield from _presence_findings(feature)
    yield from _count_findings(feature)
    yield from _domain_findings(feature, domains)


def _presence_findings(feature: schema_pb2.Feature) -> Iterator[reason.Reason]:
    fraction = feature.presence.min_fraction
    expected, found = "min_fraction from 0 to 1", f"{fraction:g}"
    if fraction < 0:
        short = "min_fraction should not be negative: clear is equal to zero"
        yield _reason(_INVALID, short, expected, found, reason.clear("presence", "min_fraction"))
    if fraction > 1:
        short = "min_fraction should not greater than 1"
        yield _reason(
            _INVALID, short, expected, found, reason.assign(1.0, "presence", "min_fraction")
        )


def _counts(feature: schema_pb2.Feature) -> list[tuple[str, schema_pb2.ValueCount]]:
    """Returns TFDV's name and the numbers of values of each level."""
    levels = [("ValueCounts", count) for count in feature.value_counts.value_count]
    return [("ValueCount", feature.value_count), *levels]


def _count_findings(feature: schema_pb2.Feature) -> Iterator[reason.Reason]:
    for place, (name, count) in enumerate(_counts(feature)):
        if count.min < 0:
            short = f"{name}.min should not be negative"
            widen = partial(_clear_min, place)
            yield _reason(_INVALID, short, "min from 0", str(count.min), widen)
        if count.HasField("max") and count.max < count.min:
            short = f"{name}.max should not be less than min"
            widen = partial(_raise_max, place)
            yield _reason(_INVALID, short, f"max from {count.min}", str(count.max), widen)
    sizes = [dimension.size for dimension in feature.shape.dim]
    if any(size <= 0 for size in sizes):
        short = "Shape.dim.size must be a positive integer"
        yield _reason(_INVALID, short, "sizes above 0", str(sizes), reason.clear("shape"))


def _clear_min(place: int, feature: schema_pb2.Feature, _: Domains) -> None:
    _counts(feature)[place][1].ClearField("min")


def _raise_max(place: int, feature: schema_pb2.Feature, _: Domains) -> None:
    count = _counts(feature)[place][1]
    count.max = count.min


def _domain_findings(feature: schema_pb2.Feature, domains: Domains) -> Iterator[reason.Reason]:
    kind = feature.WhichOneof("domain_info")
    if feature.type not in _TYPES_FOR_DOMAIN.get(kind or "", _ALL_TYPES):
        type_ = schema_pb2.FeatureType.Name(feature.type)
        yield reason.Reason(
            reason.Info.DOMAIN_INVALID_FOR_TYPE,
            "The domain does not match the type",
            f'The domain "{kind}" does not match the type: {type_}',
            f"a domain for {type_}",
            str(kind),
            reason.clear_domain,
        )
    elif kind == "domain" and feature.domain not in domains:
        short = f"missing domain: {feature.domain}"
        expected = f"a string_domain named '{feature.domain}'"
        yield _reason(
            reason.Info.INVALID_DOMAIN_SPECIFICATION, short, expected, "none", reason.clear_domain
        )
    values = list(feature.string_domain.value)
    if len(set(values)) < len(values):
        repeats = ", ".join(value for place, value in enumerate(values) if value in values[:place])
        yield reason.Reason(
            reason.Info.INVALID_DOMAIN_SPECIFICATION,
            "Malformed StringDomain",
            f"Repeated values in StringDomain:{repeats}",
            "every value once",
            repeats,
            _keep_first_values,
        )
    kind = feature.WhichOneof("domain_info")
    if feature.HasField("distribution_constraints") and kind not in ("domain", "string_domain"):
        short = "distribution constraints require domain or string domain."
        if kind is not None:
            short = f"distribution constraints not supported for {_domain_word(kind)} domains."
        widen, found = reason.clear("distribution_constraints"), kind or "no domain"
        yield _reason(_INVALID, short, "a domain of strings", found, widen)


def _keep_first_values(feature: schema_pb2.Feature, _: Domains) -> None:
    values = dict.fromkeys(feature.string_domain.value)
    del feature.string_domain.value[:]
    feature.string_domain.value.extend(values)


def _domain_word(kind: str) -> str:
    word = kind.removesuffix("_domain")
    return word if word in ("bool", "int", "float", "struct") else "semantic"


def _reason(
    type_: int, short: str, expected: str, found: str, widen: reason.Widen
) -> reason.Reason:
    return reason.Reason(type_, short, short, expected, found, widen)
