"""Rules for the schema itself: fields that contradict each other.

They follow TFDV's ``UpdateFeatureSelf``.
"""

from __future__ import annotations

from collections.abc import Iterator

from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis.anomalies.rules.reason import Info, Reason
from beam_pipelines.core.schema_features import Domains

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


def specification_reasons(feature: schema_pb2.Feature, domains: Domains) -> Iterator[Reason]:
    """Yields the reasons that concern a feature of the schema, without data."""
    if not feature.HasField("type"):
        short = "unspecified type: determine the type and set it, rather than deprecating."
        if feature.WhichOneof("domain_info") in ("domain", "string_domain"):
            short = "unspecified type: inferring the type to be BYTES, given the domain specified."
        yield _reason(Info.FEATURE_MISSING_TYPE, short, "a type: INT, FLOAT or BYTES", "none")
        return
    yield from _number_reasons(feature)
    yield from _domain_reasons(feature, domains)


def _number_reasons(feature: schema_pb2.Feature) -> Iterator[Reason]:
    invalid, count = Info.INVALID_SCHEMA_SPECIFICATION, feature.value_count
    fraction = feature.presence.min_fraction
    if fraction < 0:
        short = "min_fraction should not be negative: clear is equal to zero"
        yield _reason(invalid, short, "min_fraction from 0 to 1", f"{fraction:g}")
    if fraction > 1:
        yield _reason(
            invalid,
            "min_fraction should not greater than 1",
            "min_fraction from 0 to 1",
            f"{fraction:g}",
        )
    if count.min < 0:
        yield _reason(
            invalid, "ValueCount.min should not be negative", "min from 0", str(count.min)
        )
    if count.HasField("max") and count.max < count.min:
        short = "ValueCount.max should not be less than min"
        yield _reason(invalid, short, f"max from {count.min}", str(count.max))
    sizes = [dimension.size for dimension in feature.shape.dim]
    if any(size <= 0 for size in sizes):
        yield _reason(
            invalid, "Shape.dim.size must be a positive integer", "sizes above 0", str(sizes)
        )


def _domain_reasons(feature: schema_pb2.Feature, domains: Domains) -> Iterator[Reason]:
    kind = feature.WhichOneof("domain_info")
    if feature.type not in _TYPES_FOR_DOMAIN.get(kind or "", _ALL_TYPES):
        type_ = schema_pb2.FeatureType.Name(feature.type)
        yield Reason(
            Info.DOMAIN_INVALID_FOR_TYPE,
            "The domain does not match the type",
            f'The domain "{kind}" does not match the type: {type_}',
            f"a domain for {type_}",
            str(kind),
        )
    if kind == "domain" and feature.domain not in domains:
        short = f"missing domain: {feature.domain}"
        expected = f"a string_domain named '{feature.domain}'"
        yield _reason(Info.INVALID_DOMAIN_SPECIFICATION, short, expected, "none")
    if kind == "string_domain" and len(set(feature.string_domain.value)) < len(
        feature.string_domain.value
    ):
        values = list(feature.string_domain.value)
        repeats = ", ".join(value for place, value in enumerate(values) if value in values[:place])
        yield Reason(
            Info.INVALID_DOMAIN_SPECIFICATION,
            "Malformed StringDomain",
            f"Repeated values in StringDomain:{repeats}",
            "every value once",
            repeats,
        )
    if feature.HasField("distribution_constraints") and kind not in ("domain", "string_domain"):
        short = "distribution constraints require domain or string domain."
        if kind is not None:
            short = f"distribution constraints not supported for {_domain_word(kind)} domains."
        yield _reason(
            Info.INVALID_SCHEMA_SPECIFICATION, short, "a domain of strings", kind or "no domain"
        )


def _domain_word(kind: str) -> str:
    word = kind.removesuffix("_domain")
    return word if word in ("bool", "int", "float", "struct") else "semantic"


def _reason(type_: int, short: str, expected: str, found: str) -> Reason:
    return Reason(type_, short, short, expected, found)
