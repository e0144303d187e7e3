"""Reads the ``sources:`` of a recipe: each one's path, format and the options of its format."""

from __future__ import annotations

from collections.abc import Iterable

from beam_pipelines.recipe.model import IdxOptions, ImageOptions, Libsvm, Source
from beam_pipelines.recipe.values import (
    NAME,
    Keys,
    Value,
    read_character,
    read_choice,
    read_flag,
    read_integer,
    read_mapping,
    read_name,
    read_quote,
    read_text,
    read_texts,
)

MAX_SIDE = 65_535  # of a JPEG, in pixels


def read_sources(value: Value, formats: Iterable[str]) -> dict[str, Source] | None:
    """Returns the sources by name; notes what is wrong with them."""
    if not isinstance(value.tree, dict) or not value.tree:
        value.expected("a mapping, one 'name: path' a line")
        return None
    for name, item in value.items():
        if not NAME.fullmatch(name):
            item.wrong(
                f"found the name '{name}', expected letters, digits, '_', '.' and '-', beginning "
                "with a letter or a digit."
            )
    return {name: _source(name, item, formats) for name, item in value.items()}


def _source(name: str, value: Value, formats: Iterable[str]) -> Source:
    if not isinstance(value.tree, dict):
        return Source(name, read_texts(value) or ())
    keys = Keys(value, "a path or a mapping")
    source = Source(
        name=name,
        path=keys.need("path", read_texts, f"data/{name}.csv") or (),
        format=keys.read("format", read_choice(formats), None),
        compression=keys.read(
            "compression", read_choice(("gzip", "bzip2", "zstd", "zlib", "none")), None
        ),
        key=keys.read("key", read_texts, ()),
        delimiter=keys.read("delimiter", read_character, None),
        quote=keys.read("quote", read_quote, None),
        header=keys.read("header", read_flag, True),
        columns=keys.read("columns", read_texts, ()),
        nulls=keys.read("nulls", lambda item: read_texts(item, allow_empty=True), Source.nulls),
        types=keys.read("types", _types, {}),
        infer=keys.read("infer", read_choice(("sample", "full")), "sample"),
        schema=keys.read("schema", read_text, None),
        libsvm=keys.read("libsvm", _libsvm, Libsvm()),
        image=keys.read("image", _image, ImageOptions()),
        idx=keys.read("idx", _idx, IdxOptions()),
    )
    keys.finish()
    if not source.header and not source.columns:
        value.wrong(
            "found 'header: false' without 'columns', expected the columns' names, in file order."
        )
    return source


def _image(value: Value) -> ImageOptions:
    keys = Keys(value, "a mapping such as {resize: [224, 224], mode: rgb}")
    image = ImageOptions(
        resize=keys.read("resize", _height_and_width, ()),
        format=keys.read("format", read_choice(("png", "jpeg")), None),
        mode=keys.read("mode", read_choice(("rgb", "grey")), None),
        quality=keys.read("quality", read_integer(1, 100), ImageOptions.quality),
        classes=keys.read("classes", read_texts, ()),
    )
    keys.finish()
    if image.format == "png" and keys.get("quality") is not None:
        value.wrong(
            "found it with 'format: png', which loses nothing, expected it with JPEG only.",
            "quality",
        )
    twice = sorted({name for name in image.classes if image.classes.count(name) > 1})
    if twice:
        value.wrong(f"found class '{twice[0]}' twice, expected every class once.", "classes")
    return image


def _idx(value: Value) -> IdxOptions:
    keys = Keys(value, "a mapping such as {as: floats, labels: train-labels-idx1-ubyte.gz}")
    idx = IdxOptions(
        form=keys.read("as", read_choice(("png", "bytes", "floats", "values")), None),
        labels=keys.read("labels", lambda item: read_texts(item, allow_empty=True), None),
        classes=keys.read("classes", read_texts, ()),
    )
    keys.finish()
    return idx


def _height_and_width(value: Value) -> tuple[int, ...] | None:
    sizes = value.tree if isinstance(value.tree, list) else []
    if len(sizes) != 2:
        value.expected("height and width, as [224, 224]")
        return None
    read = read_integer(1, MAX_SIDE)
    height, width = (read(value.at(index, size)) for index, size in enumerate(sizes))
    return None if height is None or width is None else (height, width)


def _libsvm(value: Value) -> Libsvm:
    keys = Keys(value, "a mapping such as {base: 1, size: 1000}")
    libsvm = Libsvm(
        base=keys.read("base", read_integer(0, 1), None),
        size=keys.read("size", read_integer(1, 1 << 62), None),
        fields=keys.read("fields", read_integer(1, 1 << 62), None),
        name=keys.read("name", read_name, Libsvm.name),
    )
    keys.finish()
    return libsvm


def _types(value: Value) -> dict[str, str] | None:
    from beam_pipelines.core.columns import parse_type

    types = read_mapping(value)
    for column, name in (types or {}).items():
        try:
            parse_type(name)
        except ValueError as error:
            value.wrong(f"found {error}", column)
    return types
