"""Shows control characters of data as escapes."""

from __future__ import annotations

import re

# Control characters, line separators, changes of the direction of writing, and lone surrogates.
_INVISIBLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def visible(text: str, keep: str = "\n") -> str:
    r"""Returns a text that a terminal shows and does not obey.

    Data may have control characters, such as those that change colors or the window's title. They
    become escapes: ``\x1b``.

    Args:
      text: of any characters.
      keep: control characters that stay.
    """
    return _INVISIBLE.sub(
        lambda found: found[0] if found[0] in keep else repr(found[0])[1:-1], text
    )
