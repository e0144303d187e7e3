"""Protects columns: replaces their values before anything else sees them.

The key of ``keyed_hash`` is read where it is needed, by each process. Plans, which cross to
workers and to engines, have the name of its variable or file.
"""

from __future__ import annotations

import functools
import hmac
import os
from collections.abc import Mapping

import pyarrow as pa

from beam_pipelines.core.arrow.columns import type_name
from beam_pipelines.core.errors import DataError, Problem, RecipeProblems, missing_column
from beam_pipelines.files.beam import files
from beam_pipelines.recipe.protect import DROP, ENVIRONMENT, KEYED_HASH, Protection

_LEAST_KEY_BYTES = 16
_FINGERPRINT = b"beam-pipelines: fingerprint of a key"


def with_fingerprints(protect: Mapping[str, Protection], directory: str) -> dict[str, Protection]:
    """Returns protections with absolute paths of keys, and their fingerprints.

    Args:
      protect: of a recipe, by column; of a dataset's recipe with fingerprints.
      directory: where relative paths start.

    Raises:
      RecipeProblems: a key is not there, is short, or is another one than the dataset's.
    """
    found, problems = {}, []
    for column, own in protect.items():
        if own.kind != KEYED_HASH:
            found[column] = own
            continue
        is_variable = own.key.startswith(ENVIRONMENT)
        where = own.key if is_variable else files.resolve(own.key, directory)
        try:
            key = key_of(where)
        except DataError as error:
            problems.append(Problem(("protect", column), str(error)))
            continue
        fingerprint = hmac.new(key, _FINGERPRINT, "sha256").hexdigest()[:8]
        if own.fingerprint not in ("", fingerprint):
            message = (
                f"found another key in {_shown(where)} than the dataset's values were hashed with, "
                "expected the same: equal values would have other hashes"
            )
            problems.append(Problem(("protect", column), message))
        found[column] = Protection(KEYED_HASH, where, fingerprint)
    if problems:
        raise RecipeProblems(problems)
    return found


@functools.cache
def key_of(where: str) -> bytes:
    """Returns the key in an environment variable or file.

    A line end after it is not part of it.

    Args:
      where: ``env:`` and a name, or a path.

    Raises:
      DataError: there is none, or it has less than 16 bytes. The message does not have the key.
    """
    if where.startswith(ENVIRONMENT):
        found = os.environb.get(where[len(ENVIRONMENT) :].encode())
        if found is None:
            raise DataError(
                f"found no {_shown(where)}, expected the key of 'keyed_hash' in it, on every "
                "machine that runs workers. Set it, or name a file"
            )
    else:
        try:
            found = files.read_bytes(where)
        except DataError as error:
            raise DataError(
                f"found no {_shown(where)}, expected the key of 'keyed_hash' in it"
            ) from error
    key = found.rstrip(b"\r\n")
    if len(key) < _LEAST_KEY_BYTES:
        raise DataError(
            f"found {len(key)} bytes in {_shown(where)}, expected a key of at least "
            f"{_LEAST_KEY_BYTES}, such as the output of 'openssl rand -hex 32'"
        )
    return key


def _shown(where: str) -> str:
    if where.startswith(ENVIRONMENT):
        return f"environment variable {where[len(ENVIRONMENT) :]}"
    return f"file {where}"


def protected_schema(
    protect: Mapping[str, Protection], schema: pa.Schema, problems: list[Problem]
) -> pa.Schema:
    """Returns the columns after protection; notes what is wrong.

    Args:
      protect: by column.
      schema: of derived rows.
      problems: gets unknown columns, and those of a type that cannot be protected so.
    """
    fields = []
    problems.extend(
        Problem(("protect", column), missing_column(column, schema.names))
        for column in protect
        if column not in schema.names
    )
    for field in schema:
        own = protect.get(field.name)
        if own is None:
            fields.append(field)
        elif own.kind != DROP:
            if not (pa.types.is_string(field.type) or pa.types.is_integer(field.type)):
                message = (
                    f"found {type_name(field.type)} for '{own.kind}', expected text or whole "
                    "numbers; 'drop' takes any type"
                )
                problems.append(Problem(("protect", field.name), message))
            fields.append(pa.field(field.name, pa.string()))
    return pa.schema(fields)


def protect_batch(protect: Mapping[str, Protection], batch: pa.RecordBatch) -> pa.RecordBatch:
    """Replaces the values of protected columns; nulls stay null.

    Args:
      protect: by column, checked by ``protected_schema``.
      batch: of derived rows.
    """
    names, arrays = [], []
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        own = protect.get(name)
        if own is not None and own.kind == DROP:
            continue
        names.append(name)
        arrays.append(array if own is None else keyed_hash(array, key_of(own.key)))
    return pa.RecordBatch.from_arrays(arrays, names)


def keyed_hash(values: pa.Array, key: bytes) -> pa.Array:
    """Returns the first 128 bits of each value's HMAC-SHA256, in hexadecimal.

    Args:
      values: texts or whole numbers, which hash as their digits; nulls stay null.
      key: any bytes.
    """
    encoded = values.cast(pa.string()).dictionary_encode()
    texts = encoded.dictionary.cast(pa.binary()).to_pylist()
    digests = [hmac.digest(key, text, "sha256").hex()[:32] for text in texts]
    return pa.array(digests, pa.string()).take(encoded.indices)
