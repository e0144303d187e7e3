"""Parses YAML text into values and their lines.

Stricter and simpler than YAML 1.1: only ``true`` and ``false`` are booleans (YAML's ``on``,
``off``, ``yes`` and ``no`` stay text, since ``on`` is a key of ours and ``no`` a fine column name),
``1e-3`` is a number, dates stay text, a key that occurs twice is a problem, and no tag can build an
object.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import yaml

from beam_pipelines.core.errors import Problem, RecipeError
from beam_pipelines.recipe.text.lines import Lines, LineSpan, Path, show_span

# A recipe of a thousand columns has some thousand values. Aliases count each time they are used, so
# that a few lines of nested aliases cannot grow into gigabytes.
MAX_VALUES = 100_000
MAX_DEPTH = 32
MAX_TEXT_BYTES = 4 << 20


class Scalar(NamedTuple):
    """A YAML scalar.

    Attributes:
      value: ``None``, bool, int, float or str.
      text: as it was written.
    """

    value: bool | int | float | str | None
    text: str


Tree: TypeAlias = "Scalar | list[Tree] | dict[str, Tree]"


def plain(tree: Tree) -> Any:
    """Returns the tree as Python's own dicts, lists and scalars."""
    if isinstance(tree, dict):
        return {key: plain(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [plain(item) for item in tree]
    return tree.value


def tree_of(value: Any) -> Tree:
    """Returns the tree of dicts, lists and texts."""
    if isinstance(value, dict):
        return {key: tree_of(item) for key, item in value.items()}
    return [tree_of(item) for item in value] if isinstance(value, list) else Scalar(value, value)


def parse_yaml(text: str, origin: str) -> tuple[Tree, Lines, list[Problem]]:
    """Parses YAML.

    Args:
      text: the YAML text.
      origin: the path that errors name.

    Returns:
      The values, their lines, and their problems: tags, and keys that occur twice or are not text.

    Raises:
      RecipeError: not YAML, empty, or larger than any recipe.
    """
    node = _compose(text, origin)
    if node is None:
        raise RecipeError(
            f"{origin}: found an empty file, expected a recipe with 'name' and 'sources'."
        )
    walk = _Walk(origin)
    tree = walk.tree(node, ())
    lines = Lines(origin, walk.line_for_path, walk.spans, tuple(text.splitlines()))
    return tree, lines, walk.problems


def parse_value(text: str, origin: str) -> tuple[Tree, list[Problem]]:
    """Parses one value, such as ``4`` or ``{train: 0.8}``.

    An empty text is a null.

    Args:
      text: YAML.
      origin: what errors name.

    Raises:
      RecipeError: as ``parse_yaml``.
    """
    node = _compose(text, origin, shows_line=False)
    walk = _Walk(origin)
    tree: Tree = Scalar(None, "") if node is None else walk.tree(node, ())
    return tree, walk.problems


def _compose(text: str, origin: str, shows_line: bool = True) -> yaml.Node | None:
    if len(text) > MAX_TEXT_BYTES:
        raise RecipeError(
            f"{origin}: found {len(text):,} characters, expected a recipe of at most "
            f"{MAX_TEXT_BYTES:,}."
        )
    try:
        return yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark and shows_line else ""
        what = " ".join(part for part in (error.context, error.problem) if part)
        at = "".join(text.splitlines()[mark.line : mark.line + 1]) if mark else ""
        begun = _BEGUN_BY_QUOTE.search(at)
        hint = (
            " Put the whole text in quotes: '{}'.".format(begun[1].replace("'", "''"))
            if begun
            else ""
        )
        wrong = RecipeError(f"{origin}{line}: not valid YAML: {what}.{hint}")
        if line and mark:
            span = LineSpan(mark.line + 1, mark.column + 1, mark.column + 2)
            wrong.excerpts = (show_span(text.splitlines(), span),)
        raise wrong from error
    except yaml.YAMLError as error:
        raise RecipeError(f"{origin}: not valid YAML: {' '.join(str(error).split())}.") from error
    except RecursionError as error:
        raise RecipeError(
            f"{origin}: found values nested too deeply, expected at most {MAX_DEPTH} levels."
        ) from error


# A value such as "order" > 1, which YAML ends with the second quote.
_BEGUN_BY_QUOTE = re.compile(r"""(?:^|: +|- +)((["']).*\2 *[^\s,#'"].*)$""")


class _Loader(yaml.SafeLoader):
    """Resolves plain scalars as YAML 1.2 does; all others stay text."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 - PyYAML's own attribute; add_implicit_resolver fills it
    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Reads one value and those in it, to a limited depth.

        PyYAML takes time that grows with the square of the depth.
        """
        self.depth += 1
        if self.depth > MAX_DEPTH + 1:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(
                None,
                None,
                f"found values nested too deeply, expected at most {MAX_DEPTH} levels",
                mark,
            )
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node


_TAG = "tag:yaml.org,2002:"
for _name, _pattern, _first in (
    ("null", r"(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("bool", r"(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    ("int", r"[-+]?[0-9]{1,40}$", list("-+0123456789")),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", list("-+.0123456789")),
):
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(_pattern), _first)


_VALUE_FOR_TAG: dict[str, Callable[[str], bool | int | float | str | None]] = {
    _TAG + "null": lambda _: None,
    _TAG + "bool": lambda text: text.lower() == "true",
    _TAG + "int": int,
    _TAG + "float": float,
    _TAG + "str": str,
}


class _Walk:
    """Turns YAML nodes into a tree, and collects lines and problems."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.line_for_path: dict[Path, int] = {(): 1}
        self.spans: dict[Path, tuple[LineSpan, LineSpan]] = {}
        self.problems: list[Problem] = []
        self.values = 0

    def wrong(self, path: Path, message: str) -> None:
        self.problems.append(Problem(path, message))

    def tree(self, node: yaml.Node, path: Path) -> Tree:
        self.values += 1
        if self.values > MAX_VALUES or len(path) > MAX_DEPTH:
            raise RecipeError(
                f"{self.origin}:{node.start_mark.line + 1}: found more than {MAX_VALUES:,} values "
                f"or {MAX_DEPTH} levels, aliases followed. No recipe needs that many."
            )
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            return self.mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            return self.sequence(node, path)
        if isinstance(node, yaml.ScalarNode) and node.tag in _VALUE_FOR_TAG:
            return self.scalar(node, path)
        self.wrong(
            path, f"found the YAML tag '{node.tag}', expected a plain value. Leave out the tag."
        )
        return Scalar(None, "")

    def mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Tree]:
        found: dict[str, Tree] = {}
        for key_node, value in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self.wrong(path, f"found a key on line {line} that is no text, expected a name.")
                continue
            key = key_node.value
            place = (*path, key)
            if key in found:
                first = self.line_for_path[place]
                self.wrong(
                    place,
                    f"found this key on line {first} and again on line {line}, expected it once.",
                )
                continue
            self.line_for_path[place] = line
            self.spans[place] = _span(key_node), _value_span(key_node, value)
            found[key] = self.tree(value, place)
        return found

    def sequence(self, node: yaml.SequenceNode, path: Path) -> list[Tree]:
        found = []
        for index, item in enumerate(node.value):
            place = (*path, index)
            self.line_for_path[place] = item.start_mark.line + 1
            self.spans[place] = _span(item), _span(item)
            found.append(self.tree(item, place))
        return found

    def scalar(self, node: yaml.ScalarNode, path: Path) -> Scalar:
        try:
            return Scalar(_VALUE_FOR_TAG[node.tag](node.value), node.value)
        except ValueError:  # an explicit tag: !!int abc
            self.wrong(path, f"found '{node.value}', expected what its tag '{node.tag}' says.")
            return Scalar(None, "")


def _span(node: yaml.Node) -> LineSpan:
    """Returns the part of the first line that a node takes."""
    start, end = node.start_mark, node.end_mark
    return LineSpan(
        start.line + 1,
        start.column + 1,
        end.column + 1 if end.line == start.line else start.column + 2,
    )


def _value_span(key: yaml.Node, value: yaml.Node) -> LineSpan:
    """Returns the place of a value, or of its key."""
    is_on_line = key.start_mark.line == value.start_mark.line == value.end_mark.line
    is_there = value.end_mark.index > value.start_mark.index
    return _span(value) if is_on_line and is_there else _span(key)
