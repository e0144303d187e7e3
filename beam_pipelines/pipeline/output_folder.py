"""The output folder of a run: checked before, cleaned after."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import tempfile
from collections.abc import Iterable, Iterator

from beam_pipelines.core.errors import DataError, RecipeError
from beam_pipelines.core.layout.dataset_layout import DESCRIPTION, MANIFEST, REJECTED, TEMPORARY
from beam_pipelines.core.layout.shard_formats import SHARD_FOLDERS
from beam_pipelines.core.process import signals
from beam_pipelines.dataset.manifest import read_manifest
from beam_pipelines.files.beam import file_changes, files, listing
from beam_pipelines.pipeline import run_lock
from beam_pipelines.pipeline.commit import PARTS, PARTS_OF_DESCRIPTION
from beam_pipelines.pipeline.resume import clear_temporary
from beam_pipelines.pipeline.validate import OFFENDERS_OF_STOPPED_RUN
from beam_pipelines.recipe.places import planner_of, scheme_of, split_part

# Names of a run's temporary files. A folder with any other name in it is not a run's.
_TEMPORARY_NAMES = re.compile(
    rf"({'|'.join(SHARD_FOLDERS)}"
    r"|run\.json|progress|files-.*|ranges-.*|exchange|kept|rejected|encodings\d+|fit\d+|statistics"
    r"|samples|result|row_counts|shard_plan|preprocessing|tables|class_shares|classes|unsplit"
    r"|deletes-.*|transform_graph|index|finished|staged|replaced)"
    r"(\.[\d-]+\.part)?"
)


def left_behind(output: str) -> str:
    """Returns the temporary folder if it exists, or an empty text."""
    temporary = files.join(output, TEMPORARY)
    return temporary if files.exists(temporary) else ""


def check_output(output: str, overwrite: bool) -> None:
    """Checks that a run may write a dataset to a folder.

    A run replaces only files that runs have written.

    Raises:
      RecipeError: there is a dataset, or other files.
    """
    if os.path.isfile(output):
        raise _strange(output, "a file")
    temporary = files.join(output, TEMPORARY)
    for name in listing.names_in(temporary):
        if not _TEMPORARY_NAMES.fullmatch(name):
            raise _strange(output, files.join(temporary, name))
    is_dataset = files.exists(files.join(output, MANIFEST))
    if is_dataset and not overwrite:
        raise RecipeError(
            f"{output}: there is a dataset already. Add --overwrite to replace it, or choose "
            "another --output. For new data of the same kind, make one more dataset, which is read "
            f"with it as one: beam-pipelines transform {output} NEW_DATA --grow --output …"
        )
    if not is_dataset:
        _check_ours(output)


def _strange(output: str, found: str) -> RecipeError:
    return RecipeError(
        f"{output}: expected an empty or new folder, found {found}. Choose another --output."
    )


def _check_ours(output: str) -> None:
    """Raises ``RecipeError`` if a folder without a dataset holds files of others.

    A run may replace a description, and the files that a run has left.
    """
    names = [name for name in _filled(output) if not name.startswith(".")]
    ours = {TEMPORARY}
    if TEMPORARY in names:  # a run may have been killed while it moved them
        ours |= {*PARTS}
    if DESCRIPTION in names:
        ours |= {*PARTS_OF_DESCRIPTION, DESCRIPTION}
    if listing.names_in(files.join(output, REJECTED)) == [OFFENDERS_OF_STOPPED_RUN]:
        ours.add(REJECTED)
    for name in names:
        if name not in ours:
            raise _strange(output, _first_file(files.join(output, name)))


def _first_file(path: str) -> str:
    """Returns the path of a file in a folder or below.

    Of a file it returns its own path.
    """
    if files.is_local(path):
        return next(
            (os.path.join(folder, names[0]) for folder, _, names in os.walk(path) if names), path
        )
    listed = listing.files_below(path)
    return listed[0].path if listed else path


def _filled(folder: str) -> list[str]:
    """Returns the names in a folder, without folders that hold no file.

    TFX makes empty folders for the results of a component.
    """
    found = {name: files.join(folder, name) for name in listing.names_in(folder)}
    return [
        name
        for name, path in found.items()
        if not os.path.isdir(path) or any(names for _, _, names in os.walk(path))
    ]


def check_inputs(output: str, paths: Iterable[str]) -> None:
    """Checks that a run reads no file that it replaces.

    The shards of the existing dataset are allowed.

    Args:
      output: the dataset's folder.
      paths: of the recipe and of its sources' files.

    Raises:
      RecipeError: it reads such a file.
    """
    folder = _real(files.absolute(output))
    there = {*PARTS, TEMPORARY, DESCRIPTION, MANIFEST}.intersection(listing.names_in(output))
    shards: set[str] | None = None
    for given in paths if there else ():
        if scheme_of(given):
            continue
        path = given if planner_of(given) is None else split_part(given)[0]
        found = files.join(_real(os.path.dirname(files.absolute(path))), files.name_of(path))
        inner = files.relative(found, folder) if found.startswith(f"{folder.rstrip('/')}/") else ""
        part = inner.split("/")[0]
        if part not in there:
            continue
        if shards is None:
            found_shards = read_manifest(output).shards if MANIFEST in there else ()
            shards = {shard.path for shard in found_shards}
        if inner not in shards:
            raise RecipeError(
                f"{path}: is in {files.join(output, part)}, which the run replaces. Move it, or "
                "choose another --output."
            )


@functools.cache
def _real(folder: str) -> str:
    """Returns an absolute path without links.

    It is cached: a folder may hold very many files.
    """
    return os.path.realpath(folder) if files.is_local(folder) else folder


def remove_orphans(output: str) -> None:
    """Removes files that a killed or failed run left without a manifest.

    The file that lists offending rows stays.
    """
    names = set(_filled(output))
    # On a storage without locks they may be those of another run, which is about to write the
    # manifest.
    if not files.is_local(output) or {MANIFEST, DESCRIPTION} & names:
        return
    for part in names.intersection(PARTS) - {REJECTED}:
        file_changes.delete(files.join(output, part))
    for name in listing.names_in(files.join(output, REJECTED)):
        if name != OFFENDERS_OF_STOPPED_RUN:
            file_changes.delete(files.join(output, REJECTED, name))


def scratch_folder(output: str, is_local: bool) -> contextlib.AbstractContextManager[str]:
    """Makes a local folder if a local run writes to other storage.

    Files between its workers need not travel then.

    Returns:
      A context manager that gives the folder, or an empty text.
    """
    is_needed = is_local and not files.is_local(output)
    return (
        tempfile.TemporaryDirectory(prefix="beam-pipelines-")
        if is_needed
        else contextlib.nullcontext("")
    )


def _is_another(temporary: str, run: str) -> bool:
    """Returns whether another run has begun in a temporary folder.

    It returns False if the folder cannot be read, so that the run's own error is shown.
    """
    with contextlib.suppress(DataError, OSError):
        return run_lock.mark_of(temporary) not in ("", run)
    return False


def _manifest(output: str) -> bytes:
    """Returns the bytes of a dataset's manifest.

    The result is empty without a dataset.
    """
    path = files.join(output, MANIFEST)
    return files.read_bytes(path) if files.exists(path) else b""


def _note_commit(output: str, before: bytes) -> None:
    """Notes a new manifest: a late interruption reports a complete dataset."""
    if _manifest(output) not in (b"", before):
        signals.note_committed(output)


@contextlib.contextmanager
def clean_up_after(output: str, temporary: str, waits: bool, resume: bool) -> Iterator[str]:
    """Gives the run's mark; removes the temporary folder after the body.

    A run that fails leaves finished shards for another one to resume. An interrupted run leaves
    them only if it was resuming itself. An error of the removal does not hide the run's own error.

    Args:
      output, temporary: the dataset, and its temporary folder.
      waits: whether the job ends with the body; a job that continues needs the folder, and removes
        it itself.
      resume: whether the run itself resumes.
    """
    run, before = run_lock.leave_mark(temporary), _manifest(output)
    try:
        yield run
    except BaseException as error:
        is_interrupted, left = not isinstance(error, Exception) or signals.has_raised(), 0
        if _is_another(temporary, run):
            if is_interrupted:
                raise
            raise run_lock.other_run(output, temporary) from error
        with signals.ignoring_signals(), contextlib.suppress(Exception):
            # First: without the temporary folder, orphans would look like files of others.
            remove_orphans(output)
            left = clear_temporary(temporary, keeps=resume or not is_interrupted)
            _note_commit(output, before)
        if left and isinstance(error, DataError):
            shards = "shard is" if left == 1 else "shards are"
            raise DataError(
                f"{error}\n{left:,} {shards} finished: run again with --resume to keep them."
            ) from error
        raise
    if waits:
        with signals.ignoring_signals(), contextlib.suppress(Exception):
            _note_commit(output, before)
            file_changes.delete(temporary)
