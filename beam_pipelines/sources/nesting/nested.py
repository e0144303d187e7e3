"""Nested columns made flat.

A struct's fields become columns of their own: field ``b`` of ``a`` is column ``a.b``, null where
``a`` is null. A list of structs becomes parallel lists: ``[{"b": 1}, {"b": 2}]`` in ``a`` is
``[1, 2]`` in ``a.b``. A map is a list of structs of ``key`` and ``value``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from beam_pipelines.core.arrow.columns import is_list


def without_map(type_: pa.DataType) -> pa.DataType:
    """Returns a map as a list of structs; other types stay."""
    if not pa.types.is_map(type_):
        return type_
    fields = [("key", type_.key_type), ("value", type_.item_type)]
    return pa.list_(pa.struct(fields))


def _without_map(array: pa.Array) -> pa.Array:
    if not pa.types.is_map(array.type):
        return array
    pairs = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
    return pa.ListArray.from_arrays(offsets_of(array), pairs, mask=nulls_of(array))


def levels(fields: Iterable[pa.Field]) -> int:
    """Returns how deep nested fields are: 1 for scalars.

    Uses no recursion, so that any depth can be measured.
    """
    depth, types = 0, [field.type for field in fields]
    while types:
        depth += 1
        types = [type_.field(number).type for type_ in types for number in range(type_.num_fields)]
    return depth


def flatten_fields(fields: Iterable[pa.Field], prefix: str = "") -> Iterator[pa.Field]:
    """Yields the flat columns of nested ones, in order."""
    for field in fields:
        name, type_ = f"{prefix}{field.name}", without_map(field.type)
        if pa.types.is_struct(type_):
            yield from flatten_fields(type_, f"{name}.")
        elif is_list(type_) and pa.types.is_struct(type_.value_type):
            for child in flatten_fields(type_.value_type, f"{name}."):
                yield child.with_type(pa.list_(child.type))
        else:
            yield pa.field(name, type_)


def flatten_array(name: str, array: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """Yields the flat columns of one column, in the order of ``flatten_fields``."""
    array = _without_map(array)
    if pa.types.is_struct(array.type):
        for field, child in zip(array.type, array.flatten(), strict=True):
            yield from flatten_array(f"{name}.{field.name}", child)
    elif is_list(array.type) and pa.types.is_struct(array.type.value_type):
        # An unnecessary cast may lose the fields of structs that are all null.
        lists = (
            array if pa.types.is_list(array.type) else array.cast(pa.list_(array.type.value_type))
        )
        # `values` and `offsets` both ignore the slice: offsets point into all values.
        for child_name, child in flatten_array(name, lists.values):
            offsets = offsets_of(lists)
            yield child_name, pa.ListArray.from_arrays(offsets, child, mask=nulls_of(lists))
    else:
        yield name, array


def flat_arrays(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """Returns the flat columns of a batch by name."""
    return {
        name: array
        for field, column in zip(batch.schema, batch.columns, strict=True)
        for name, array in flatten_array(field.name, column)
    }


def offsets_of(lists: pa.Array) -> pa.Array:
    """Returns offsets that go with nulls; pyarrow takes no slice of them."""
    return pa.array(lists.offsets.to_numpy()) if lists.offset else lists.offsets


def nulls_of(array: pa.Array) -> pa.Array | None:
    """Returns which values are null, or ``None`` if none is."""
    return array.is_null() if array.null_count else None


def map_leaves(
    fields: Iterable[pa.Field],
    change: Callable[[str, pa.DataType], pa.DataType | None],
    prefix: str = "",
) -> list[pa.Field]:
    """Returns nested fields with the type of each flat column changed.

    Args:
      fields: nested fields.
      change: takes a flat column's name and type (a list, within a list of structs) and returns the
        new type; ``None`` leaves the column out.
      prefix: of the names that ``change`` gets.
    """
    changed = []
    for field in fields:
        name = f"{prefix}{field.name}"
        if pa.types.is_struct(field.type):
            type_: pa.DataType | None = pa.struct(map_leaves(field.type, change, f"{name}."))
        elif is_list(field.type) and pa.types.is_struct(field.type.value_type):
            items = map_leaves(
                field.type.value_type,
                lambda leaf, item: _item_change(change, leaf, item),
                f"{name}.",
            )
            type_ = pa.list_(pa.struct(items))
        else:
            type_ = change(name, field.type)
        if type_ is not None and not (_holds_nothing(type_) and not _holds_nothing(field.type)):
            changed.append(pa.field(field.name, type_))
    return changed


def _item_change(
    change: Callable[[str, pa.DataType], pa.DataType | None], name: str, type_: pa.DataType
) -> pa.DataType | None:
    changed = change(name, pa.list_(type_))
    return None if changed is None else changed.value_type


def _holds_nothing(type_: pa.DataType) -> bool:
    if is_list(type_):
        return _holds_nothing(type_.value_type)
    return bool(pa.types.is_struct(type_) and type_.num_fields == 0)
