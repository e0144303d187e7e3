"""Recognises sparse text in a file that is called otherwise."""

from __future__ import annotations

import re

_NUMBER = rb"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_LINE = re.compile(
    rb"%b(?:[ \t]+qid:[0-9]+)?([ \t]+[0-9]+(?::[0-9]+)?:%b)+[ \t]*(?:#.*)?" % (_NUMBER, _NUMBER)
)
# Bytes to look at, and lines of comments that may come first.
HEAD_BYTES = 1 << 16
_MOST_COMMENTS = 1_000


def sparse_format(head: bytes) -> tuple[str, str]:
    """Returns the format of the first line of data, and that line.

    Args:
      head: the first ``HEAD_BYTES`` of a text file, or all of it.

    Returns:
      ``libsvm`` (which libfm looks like) or ``libffm``; empty for other text.
    """
    if len(head) == HEAD_BYTES:  # perhaps within a token
        head = head[: max(head.rfind(b" "), head.rfind(b"\t"), head.rfind(b"\n"), 0)]
    for line in map(bytes.strip, head.splitlines()[:_MOST_COMMENTS]):
        if line and not line.startswith(b"#"):
            match = _LINE.fullmatch(line)
            if not match:
                break
            return ("libffm" if match[1].count(b":") == 2 else "libsvm"), line.decode()
    return "", ""
