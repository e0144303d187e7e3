"""How a vocabulary gets into a graph: a text file of one token a line, from which TensorFlow
initialises a lookup table.

``to_tensorflow`` of an encoding calls ``token_table``. The table reads its file when it is made and
keeps the path as an asset: whoever saves the graph finds a copy in ``assets/``, under the file's
own name. tensorflow-transform looks vocabularies up by that name
(``TFTransformOutput.vocabulary_by_name``, ``vocabulary_size_by_name``), so the one who builds the
serving graph says the name::

    with vocabulary_asset.named(folder, feature_name, tables):
        tensor = encoding.to_tensorflow(tensor)

inside any ``tf.function``, and keeps the tables in what is saved; inside a ``preprocessing_fn``,
tensorflow-transform does. ``folder`` must last until the graph is saved; a file in it is written
once, however often the graph is traced, and with ``tables`` read once. Without ``named`` the file
lies in a temporary folder of the process. Two vocabularies of one name get one name and, from
TensorFlow, a suffix.

The file is as tensorflow-transform writes it: tokens in the order of their ids, each ended by a
newline; so no token is empty or holds a newline or a carriage return (which TensorFlow's line
reader drops).
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    import tensorflow as tf

    Table: TypeAlias = tf.lookup.StaticHashTable | tf.lookup.StaticVocabularyTable
    # By file, and number of ids for other values.
    Tables: TypeAlias = dict[tuple[str, int], Table]

# Tokens joined at a time: Arrow's arrays hold at most 2 GiB.
_CHUNK_TOKENS = 1 << 20

_place: contextvars.ContextVar[tuple[str, str, Tables] | None] = contextvars.ContextVar(
    "place", default=None
)


@contextlib.contextmanager
def named(folder: str, name: str, tables: Tables | None = None) -> Iterator[None]:
    """Says where the vocabularies of the graph that is built inside are written.

    Args:
      folder: local and there; must last until the graph is saved.
      name: of the feature; the file gets it as tensorflow-transform would change it.
      tables: those made so far, which need not be made again; new ones are added.
    """
    token = _place.set((folder, file_name(name), {} if tables is None else tables))
    try:
        yield
    finally:
        _place.reset(token)


def file_name(feature: str) -> str:
    """Returns the name of a feature's vocabulary, as
    ``tensorflow_transform.analyzers.sanitized_vocab_filename``.
    """
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "_", feature).strip())


def token_table(tokens: pa.Array, num_oov: int = 0) -> Table:
    """Returns a table from tokens to their places, initialised, for the graph that is being built
    or for eager use.

    Args:
      tokens: binary, at least one, distinct, none of them empty or with a line break.
      num_oov: 0: other values become -1. Else they become ``len(tokens)`` + fingerprint modulo
        ``num_oov``.
    """
    import tensorflow as tf

    folder, name, tables = _place.get() or (_process_folder().name, "vocabulary", {})
    path = _write(tokens, folder, name)
    table = tables.get((path, num_oov))
    if table is None:
        # Autograph would rewrite, and warn of, what only Python does here.
        table = tables[path, num_oov] = tf.autograph.experimental.do_not_convert(_table)(
            path, num_oov
        )
    # A table dies with its last reference in Python: a graph that uses it has to hold one.
    if tf.inside_function():
        tf.compat.v1.get_default_graph().add_to_collection("beam_pipelines_tables", table)
    return table


def _table(path: str, num_oov: int) -> Table:
    import tensorflow as tf

    index = tf.lookup.TextFileIndex
    with tf.init_scope():
        lines = tf.lookup.TextFileInitializer(
            path, tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER
        )
        make = tf.lookup.StaticVocabularyTable if num_oov else tf.lookup.StaticHashTable
        return make(lines, num_oov or -1)


def _write(tokens: pa.Array, folder: str, name: str) -> str:
    """Writes the tokens' file, unless it is there; returns its path, which depends on its
    content.
    """
    data = list(_lines(tokens))
    digest = hashlib.blake2b(digest_size=8)
    for lines in data:
        digest.update(lines)
    path = os.path.join(folder, digest.hexdigest(), name)
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.writelines(data)
    return path


def _lines(tokens: pa.Array) -> Iterator[pa.Buffer]:
    for start in range(0, len(tokens), _CHUNK_TOKENS):
        ended = pc.binary_join_element_wise(tokens.slice(start, _CHUNK_TOKENS), b"", b"\n")
        yield ended.buffers()[2]


@functools.cache
def _process_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="vocabularies-")
