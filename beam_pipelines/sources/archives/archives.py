"""Tar and zip archives, read member by member; nothing is written."""

from __future__ import annotations

from collections.abc import Iterator

from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.archives import tar
from beam_pipelines.sources.archives import zip as zip_module
from beam_pipelines.sources.archives.members import ArchiveMember
from beam_pipelines.sources.files.compression import COMPRESSION_FOR_SUFFIX, compression_of


def is_archive(path: str) -> bool:
    """Whether a file has the name of a zip or tar archive."""
    return _is_zip(path) or _is_tar(path)


def _is_zip(path: str) -> bool:
    return path.lower().endswith(".zip")


def _is_tar(path: str) -> bool:
    path = path.lower()
    for suffix in COMPRESSION_FOR_SUFFIX:
        path = path.removesuffix(suffix)
    return path.endswith((".tar", ".tgz"))


def read_members(source: Source, path: str) -> Iterator[ArchiveMember]:
    """Yields the files in an archive, in order. Folders are passed over.

    Raises:
      DataError: the archive is damaged or cut off, has a link, a device, or two files of one name
        in it, or is beyond a limit.
    """
    if _is_zip(path):
        return zip_module.read_zip(path, source.limits)
    return tar.read_tar(path, tar_compression(source, path), source.limits)


def tar_compression(source: Source, path: str) -> str:
    """Returns the compression of a tar archive; see ``compression_of``."""
    is_tgz = path.lower().endswith(".tgz") and not source.compression
    return "gzip" if is_tgz else compression_of(source, path)


def read_member(member: ArchiveMember) -> bytes:
    """Returns the content of a member.

    Raises:
      DataError: the archive is damaged or cut off there.
    """
    explained = (zip_module if _is_zip(member.archive) else tar).explained
    with explained(member.archive):
        return member.content.read()
