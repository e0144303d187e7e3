"""The functions of DuckDB that an expression may call.

The value of an allowed function depends on its arguments alone. The list is ours: DuckDB's own
marks change with its releases, and hold for some overloads of a name only. The database's time zone
is UTC, so that the overloads of times with a zone are allowed.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from beam_pipelines.sql.database import arguments_of, connection, constant_of, walk

_ALLOWED = """
raw

! != !__postfix % & && * ** + - ->> / // < <#> <-> << <= <=> <@ = > >= >> @ @> ^ ^@ | || ~
__between !~~ !~~* ~~ ~~* ~~~ __cast add decimal_division divide fdiv fmod like_escape mod multiply
subtract xor ilike_escape not_like_escape not_ilike_escape abs acos acosh asin asinh atan atan2
atanh binom bit_count cbrt ceil ceiling cos cosh cot degrees even exp factorial floor gamma gcd
greatest greatest_common_divisor isfinite isinf isnan lcm least least_common_multiple lgamma ln log
log10 log2 nextafter pi pow power radians round round_even roundbankers sign signbit sin sinh sqrt
tan tanh trunc

ascii bar base64 bin bit_length bit_position bitstring char_length character_length chr concat
concat_ws contains decode editdist3 encode ends_with format format_bytes formatreadabledecimalsize
formatreadablesize from_base64 from_binary from_hex get_bit hamming hex
instr jaccard jaro_similarity jaro_winkler_similarity lcase left left_grapheme len length
length_grapheme levenshtein lower lpad ltrim md5 md5_number md5_number_lower md5_number_upper
mismatches nfc_normalize octet_length ord overlay parse_dirname parse_dirpath parse_filename
parse_formatted_bytes parse_path path_join pg_size_pretty position prefix printf regexp_escape
regexp_extract regexp_extract_all regexp_full_match regexp_matches regexp_replace
regexp_split_to_array repeat replace reverse right right_grapheme rpad rtrim set_bit sha1 sha256
split split_part starts_with str_split str_split_regex string_split string_split_regex
string_to_array strip_accents strlen strpos substr substring substring_grapheme suffix to_base
to_base64 to_binary to_hex translate trim ucase unbin unhex unicode upper url_decode url_encode
hive_partition_component

age century date_add date_diff date_part date_sub date_trunc datediff datepart datesub datetrunc
day dayname dayofmonth dayofweek dayofyear days_in_month decade epoch epoch_ms epoch_ns epoch_us
era hour isodow isoyear julian last_day make_date make_time make_timestamp make_timestamp_ms
make_timestamp_ns make_timestamptz microsecond millennium millisecond minute month monthname
nanosecond normalized_interval quarter second strftime strptime time_bucket timetz_byte_comparable
timezone timezone_hour timezone_minute to_centuries to_days to_decades to_hours to_microseconds
to_millennia to_milliseconds to_minutes to_months to_quarters to_seconds to_timestamp to_weeks
to_years try_strptime uuid_extract_timestamp uuid_extract_version week weekday weekofyear year
yearweek

alias can_cast_implicitly cast_to_type constant_or_null enum_code enum_first enum_last enum_range
enum_range_boundary equi_width_bins if nullif row struct_concat struct_contains struct_extract
struct_extract_at struct_has struct_indexof struct_insert struct_keys struct_pack struct_position
struct_update struct_values remap_struct switch try typeof pg_typeof union_extract union_tag
union_value is_histogram_other_bin

aggregate apply array_aggr array_aggregate array_append array_apply array_cat array_concat
array_contains array_cosine_distance array_cosine_similarity array_cross_product array_distance
array_distinct array_dot_product array_extract array_filter array_grade_up array_has array_has_all
array_has_any array_indexof array_inner_product array_intersect array_length
array_negative_dot_product array_negative_inner_product array_pop_back array_pop_front
array_position array_prepend array_push_back array_push_front array_reduce array_resize
array_reverse array_reverse_sort array_select array_slice array_sort array_to_json array_to_string
array_to_string_comma_default array_transform array_unique array_value array_where array_zip
cardinality element_at filter flatten generate_series grade_up list_aggr list_aggregate
list_any_value list_append list_apply list_avg list_bit_and list_bit_or list_bit_xor list_bool_and
list_bool_or list_cat list_concat list_contains list_cosine_distance list_cosine_similarity
list_count list_distance list_distinct list_dot_product list_element list_entropy list_extract
list_filter list_first list_grade_up list_has list_has_all list_has_any list_histogram list_indexof
list_inner_product list_intersect list_kurtosis list_kurtosis_pop list_last list_mad list_max
list_median list_min list_mode list_negative_dot_product list_negative_inner_product list_pack
list_position list_prepend list_product list_reduce list_resize list_reverse list_reverse_sort
list_select list_sem list_skewness list_slice list_sort list_stddev_pop list_stddev_samp
list_string_agg list_sum list_transform list_unique list_value list_var_pop list_var_samp
list_where list_zip map map_concat map_contains map_contains_entry map_contains_value map_entries
map_extract map_extract_value map_from_entries map_keys map_values range reduce unpivot_list

from_json from_json_strict json json_array json_array_length json_deep_merge json_exists
json_extract json_extract_path json_extract_path_text json_extract_string json_insert json_keys
json_merge_patch_diff json_normalize json_object json_quote json_remove
json_replace json_set json_strip_nulls json_transform json_transform_strict json_type json_valid
json_value row_to_json to_json


st_asbinary st_asgeojson st_astext st_aswkb st_aswkt st_crs st_geomfromgeojson st_geomfromwkb
st_intersects_extent st_setcrs
"""
_CLOCK = "whose value is another one in every run"
_ONE_BATCH = "which would see one batch only"
_NESTING = "whose memory or stack grows with how deep a text of JSON nests"
# Reason -> the names.
_REFUSED = {
    _CLOCK: """
ago assert_true current_catalog current_connection_id current_database current_date
current_localtime current_localtimestamp current_query current_query_id current_role current_schema
current_schemas current_setting current_time current_timestamp current_transaction_id current_user
currval error gen_random_uuid get_current_time get_current_timestamp getvariable in_search_path
localtime localtimestamp nextval now random session_user setseed setval sleep_ms today
transaction_timestamp txid_current user uuid uuidv4 uuidv7 write_log""",
    "whose value changes with DuckDB's releases": """
hash list_approx_count_distinct version""",
    "whose memory grows with the product of two texts": "damerau_levenshtein",
    _ONE_BATCH: """
combine count_if finalize geomean geometric_mean invoke json_group_array json_group_object
json_group_structure stats to_aggregate_state vector_type wavg weighted_avg""",
    "which makes several rows of one": """
generate_subscripts regexp_split_to_table unlist unnest""",
    "which is about whole statements": """
json_deserialize_sql json_execute_serialized_sql json_serialize_plan json_serialize_sql
parse_duckdb_log_message""",
    "which is about DuckDB's own data": """
bitstring_byte_comparable col_description create_sort_key format_pg_type format_type get_block_size
get_type icu_sort_key index_key json_copy_strftime_if_date json_copy_strftime_if_timestamp
make_type map_to_pg_oid map_type_id_to_pg_oid obj_description replace_type shobj_description
vertex_extract""",
}
# Names of the rest, and why they are refused.
_FAMILIES = (
    (re.compile("(icu_)?collate_.*|is( not)? distinct from"), None),
    (re.compile("__internal_.*"), "which is about DuckDB's own data"),
    (re.compile("(pg|has|inet)_.*"), _CLOCK),
    (re.compile("json_(contains|merge_patch|pretty|structure)|variant_.*"), _NESTING),
)
_SCHEMAS = ("main", "pg_catalog", "system")
# Functions that call the aggregate which their second argument names.
_AGGREGATING = frozenset(
    {"aggregate", "array_aggr", "array_aggregate", "list_aggr", "list_aggregate"}
)
_LIST_AGGREGATES = """
any_value arbitrary array_agg avg bit_and bit_or bit_xor bool_and bool_or count count_if countif
entropy favg first fsum group_concat histogram histogram_exact kahan_sum kurtosis kurtosis_pop last
list listagg mad max mean median min mode product quantile quantile_cont quantile_disc sem skewness
stddev stddev_pop stddev_samp string_agg sum sum_no_overflow sumkahan var_pop var_samp variance
"""
# Functions whose second argument names types.
_TYPED = frozenset({"from_json", "from_json_strict", "json_transform", "json_transform_strict"})
# ``AT TIME ZONE`` moves such a time by the zone's offset on the day of the run.
_TIME_ZONE = re.compile(r"timetz|\btime\s+with\s+time\s+zone", re.IGNORECASE)
_ZONED_TIME = (
    "a value of type TIME WITH TIME ZONE, expected one that a column can hold, such as TIME or "
    "TIMESTAMP"
)
_REMEDIES = {
    "damerau_levenshtein": "; levenshtein(x, y) needs less",
    "hash": "; md5_number_lower(x) is the same everywhere",
    "current_date": "; write the date, such as DATE '2026-01-31'",
}


@functools.cache
def _decided() -> dict[str, str | None]:
    """Returns function -> why it is refused; ``None`` is allowed."""
    decided: dict[str, str | None] = dict.fromkeys(_ALLOWED.split())
    for reason, names in _REFUSED.items():
        decided |= dict.fromkeys(names.split(), reason)
    return decided


@functools.cache
def _kinds() -> dict[str, set[str]]:
    """Returns function -> its kinds in DuckDB's catalogue."""
    kinds: dict[str, set[str]] = {}
    query = "SELECT DISTINCT lower(function_name), function_type FROM duckdb_functions()"
    for name, kind in connection().execute(query).fetchall():
        kinds.setdefault(name, set()).add(kind)
    return kinds


def is_aggregate(name: str) -> bool:
    """Whether a function is an aggregate, and nothing else that is allowed."""
    return "aggregate" in _kinds().get(name, ()) and _decided().get(name, "") is not None


def is_decided(name: str) -> bool:
    """Whether a function is in the lists here."""
    return name in _decided() or any(pattern.fullmatch(name) for pattern, _ in _FAMILIES)


def refused_name(name: str) -> str | None:
    """Returns why no expression may call a function, or ``None``.

    Args:
      name: in lower case.
    """
    if name in _decided():
        reason = _decided()[name]
        return None if reason is None else reason + _REMEDIES.get(name, "")
    for pattern, reason in _FAMILIES:
        if pattern.fullmatch(name):
            return reason
    kinds = _kinds().get(name)
    if kinds is None:  # DuckDB says that it has none
        return None
    if "aggregate" in kinds:
        return _ONE_BATCH
    if not kinds & {"scalar", "macro"}:
        return "which makes a table"
    return (
        "which this release of beam-pipelines does not know, so that its value may depend on more "
        "than its arguments"
    )


def refused_call(node: Mapping[str, Any]) -> str | None:
    """Returns why a call in a parse tree is refused, or ``None``."""
    name = str(node["function_name"]).lower()
    arguments = arguments_of(node)
    if reason := refused_name(name):
        return reason
    # What stands before a point may be an argument; DuckDB 1 names the schema of operators.
    schemas = [node.get("schema") or "main", *node.get("qualified_name", {}).get("path", ())[:-1]]
    if any(schema.lower() not in _SCHEMAS for schema in schemas):
        return f"whose name has a point before it; expected {name}(…)"
    if name == "age" and len(arguments) != 2:
        return f"{_CLOCK} if it has one argument; expected age(later, earlier)"
    return _refused_names(name, arguments) if name in _AGGREGATING | _TYPED else None


def _refused_names(name: str, arguments: Sequence[Any]) -> str | None:
    """Returns why names that a text gives are refused, or ``None``."""
    kind, text = ("", "") if len(arguments) < 2 else constant_of(arguments[1])
    if kind != "STRING":
        return "whose second argument has to be a text in 'quotes'"
    if name in _TYPED:
        return f"with {_ZONED_TIME}" if _TIME_ZONE.search(text) else None
    words = f"with the aggregate '{text}', expected one such as 'sum' or 'median'"
    return None if text.lower() in _LIST_AGGREGATES.split() else words


def refused_cast(node: Mapping[str, Any]) -> str | None:
    """Returns why a cast in a parse tree is refused, or ``None``."""
    target = node["type_expr"] if "type_expr" in node else node["cast_type"]
    if any("VARIANT" in (part.get("type_name"), part.get("id")) for part in walk(target)):
        return f"a value of type VARIANT, {_NESTING}; expected JSON or a type of a column"
    return _ZONED_TIME if _TIME_ZONE.search(json.dumps(target)) else None
