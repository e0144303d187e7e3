"""Vocabularies in a graph: text files from which TensorFlow makes lookup tables.

``to_tensorflow`` of an encoding calls ``token_table``. The table reads its file when it is made and
keeps the path as an asset: saving the graph copies it to ``assets/`` under the file's own name.
tensorflow-transform finds vocabularies by that name (``TFTransformOutput.vocabulary_by_name``,
``vocabulary_size_by_name``), so the builder of the serving graph gives the name::

    with vocabulary_asset.named(folder, feature_name, tables):
        tensor = encoding.to_tensorflow(tensor)

inside any ``tf.function``, and keeps the tables in the saved object; inside a ``preprocessing_fn``,
tensorflow-transform does. ``folder`` must last until the graph is saved. A file in it is written
once per content, and with ``tables`` read once. Without ``named`` the file is in a temporary folder
of the process. TensorFlow adds a suffix to the second of two vocabularies of one name.

The file has tensorflow-transform's format: tokens in the order of their ids, each ended by a
newline. So no token is empty or has a newline or a carriage return, which TensorFlow's line reader
drops.
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
    # By file and number of ids for other values.
    Tables: TypeAlias = dict[tuple[str, int], Table]

# Tokens joined at a time: Arrow's arrays hold at most 2 GiB.
_CHUNK_TOKENS = 1 << 20

_place: contextvars.ContextVar[tuple[str, str, Tables] | None] = contextvars.ContextVar(
    "place", default=None
)


@contextlib.contextmanager
def named(folder: str, name: str, tables: Tables | None = None) -> Iterator[None]:
    """Sets where vocabularies of the graph built inside are written.

    Args:
      folder: local; exists until the graph is saved.
      name: of the feature; the file name is tensorflow-transform's form of it.
      tables: made so far, to be reused; new ones are added.
    """
    token = _place.set((folder, file_name(name), {} if tables is None else tables))
    try:
        yield
    finally:
        _place.reset(token)


def file_name(feature: str) -> str:
    """Returns the file name of a feature's vocabulary.

    That is ``tensorflow_transform.analyzers.sanitized_vocab_filename``.
    """
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "_", feature).strip())


def token_table(tokens: pa.Array, num_oov: int = 0) -> Table:
    """Returns an initialized table from tokens to places.

    A graph or eager code can use it.

    Args:
      tokens: binary, at least one, distinct, none empty or with a line break.
      num_oov: 0: other values become -1. Else they become ``len(tokens)`` + fingerprint modulo
        ``num_oov``.
    """
    import tensorflow as tf

    folder, name, tables = _place.get() or (_process_folder().name, "vocabulary", {})
    path = _write(tokens, folder, name)
    table = tables.get((path, num_oov))
    if table is None:
        # Autograph would rewrite this Python code, and warn.
        table = tables[path, num_oov] = tf.autograph.experimental.do_not_convert(_table)(
            path, num_oov
        )
    # A table is deleted with its last Python reference: a graph that uses it must hold one.
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
    """Writes the tokens' file unless it exists.

    Its path depends on its content.
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
