"""Addresses of files in datasets of Hugging Face, and the user's token.

A path is ``hf://datasets/OWNER/NAME/FILE``, with ``@REVISION`` after the name for one other than
``main``.
"""

from __future__ import annotations

import os
import re
import urllib.parse

from beam_pipelines.core.errors import DataError, keep_secret

SCHEME = "hf"
# Variables of Hugging Face's own programs.
_SERVER, _TOKEN = "HF_ENDPOINT", "HF_TOKEN"
_DEFAULT_SERVER = "https://huggingface.co"
_REFUSED, _FORBIDDEN = 401, 403
# A revision has slashes only as one of these references.
_PATH = re.compile(
    r"hf://datasets/(?P<name>[^/@]+/[^/@]+)"
    r"(?:@(?P<revision>refs/convert/[^/]+|refs/pr/[^/]+|[^/]+))?/(?P<file>.+)"
)
_ALIASES = {"~parquet": "refs/convert/parquet", "~duckdb": "refs/convert/duckdb"}


def check_path(path: str) -> None:
    """Checks the path of a source.

    Raises:
      DataError: it is no file in a dataset, or a pattern; or ``HF_ENDPOINT`` or ``HF_TOKEN`` is
        wrong.
    """
    if re.search(r"[*?\[]", path):
        raise DataError(
            f"{path}: found a pattern, expected the path of one file, as files of Hugging Face are "
            "not listed. Name the files in a list, or download them: 'hf download'."
        )
    address(path)
    headers()


def address(path: str) -> str:
    """Returns the URL of a file in a dataset.

    Raises:
      DataError: the path is none of such a file, or ``HF_ENDPOINT`` is no URL.
    """
    found = _PATH.fullmatch(path)
    if found is None:
        raise DataError(
            f"{path}: found a path of Hugging Face, expected "
            "hf://datasets/OWNER/NAME[@REVISION]/FILE. Copy it from the dataset's page."
        )
    server = os.environ.get(_SERVER) or _DEFAULT_SERVER
    if not server.startswith(("https://", "http://")):
        raise DataError(
            f"{_SERVER}: found '{server}', expected the URL of a server. Unset it, or begin it "
            "with https://."
        )
    revision = urllib.parse.unquote(found["revision"] or "main")
    names = (
        found["name"],
        urllib.parse.quote(_ALIASES.get(revision, revision), safe=""),
        urllib.parse.quote(found["file"]),
    )
    return "{}/datasets/{}/resolve/{}/{}".format(server.rstrip("/"), *names)


def check_answer(path: str, status: int, code: str | None) -> None:
    """Checks an answer other than the file.

    Args:
      path: of the file.
      status: of the answer.
      code: the word for the error in its header X-Error-Code.

    Raises:
      DataError: there is no such dataset or revision, or the user may not read it.
    """
    found = _PATH.fullmatch(path)
    name, revision = (found["name"], found["revision"] or "main") if found else (path, "")
    page = f"{os.environ.get(_SERVER) or _DEFAULT_SERVER}".rstrip("/") + f"/datasets/{name}"
    if code == "RevisionNotFound":
        raise DataError(
            f"{path}: dataset '{name}' has no revision '{revision}'. Branches and tags are on its "
            f"page: {page}"
        )
    if code == "GatedRepo" or (code is None and status == _FORBIDDEN):
        raise DataError(
            f"{path}: this user may not read dataset '{name}'. Accept its terms on its page, and "
            f"set {_TOKEN} to a token that may read it: {page}"
        )
    # Without a token it does not tell whether a dataset is private or is not there.
    if code == "RepoNotFound" or status == _REFUSED:
        raise DataError(
            f"{path}: found no dataset '{name}' that this user may read. Check its name; a private "
            f"one needs a token in {_TOKEN}."
        )


def headers() -> dict[str, str]:
    """Returns the header with the user's token, if there is one.

    Raises:
      DataError: the token has blanks or other signs that no header has. It is not shown.
    """
    token = os.environ.get(_TOKEN, "").strip()
    if not token:
        return {}
    if not re.fullmatch(r"[!-~]+", token):
        raise DataError(
            f"{_TOKEN}: found blanks or other signs that no token has, expected a token alone. "
            "Copy it again."
        )
    keep_secret(token)
    return {"Authorization": f"Bearer {token}"}
