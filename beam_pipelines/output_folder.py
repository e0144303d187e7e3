"""The folder that a run writes to: what may be in it before, what is in it meanwhile, and what is left behind."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator

from beam_pipelines import file_changes, files, run_lock, stopping
from beam_pipelines.commit import DESCRIPTION, PARTS, TEMPORARY
from beam_pipelines.errors import DataError, RecipeError
from beam_pipelines.generations import count_generations
from beam_pipelines.manifest import FILE_NAME, read_manifest
from beam_pipelines.resume import clear


def left_behind(output: str) -> str:
    """Returns the temporary folder of a conversion if it is still there, or an empty text."""
    temporary = files.join(output, TEMPORARY)
    return temporary if files.exists(temporary) else ""


def check_output(output: str, overwrite: bool, generation: int = 1) -> None:
    """Checks that a generation of a dataset may be written to a folder.

    Raises:
      RecipeError: there is a dataset already, or not the one that is to be appended to, or something else.
    """
    if generation > 1:
        there = count_generations(read_manifest(output)) if files.exists(files.join(output, FILE_NAME)) else 0
        if there != generation - 1:
            raise RecipeError(
                f"{output}: found {there} generations, expected {generation - 1}: another run has written to it meanwhile. Run again."
            )
        return
    if files.exists(files.join(output, FILE_NAME)):
        if not overwrite:
            raise RecipeError(
                f"{output}: there is a dataset already. Add --overwrite to replace it, or choose another --output. To add new files to it, "
                "set 'append: true' in the recipe."
            )
        return
    # An object store lists no folders, only what would be in them.
    found = [listed.path for listed in files.list_files(files.join(output, "**" if files.is_object(output) else "*"))]
    own = (*PARTS, TEMPORARY, DESCRIPTION)
    strange = [path for path in found if files.relative(path, output).split("/")[0] not in own]
    if strange or (files.is_local(output) and files.is_file(output)):
        raise RecipeError(
            f"{output}: expected an empty or new folder, found {strange[0] if strange else 'a file'}. Choose another --output."
        )


def scratch_beside(output: str, is_local: bool) -> contextlib.AbstractContextManager[str]:
    """Makes a folder on this machine for a local run that writes elsewhere: what passes between its workers need not travel."""
    is_needed = is_local and not files.is_local(output)
    return tempfile.TemporaryDirectory(prefix="beam-pipelines-") if is_needed else contextlib.nullcontext("")


def _is_another(temporary: str, run: str) -> bool:
    """Whether another run has begun in a temporary folder; one that cannot be looked at does not hide why the run failed."""
    with contextlib.suppress(DataError, OSError):
        return run_lock.mark_of(temporary) not in ("", run)
    return False


def _manifest(output: str) -> bytes:
    """Returns the bytes of a dataset's manifest; none if there is no dataset."""
    path = files.join(output, FILE_NAME)
    return files.read_bytes(path) if files.exists(path) else b""


def _note_commit(output: str, before: bytes) -> None:
    """Takes note of a new manifest: whoever interrupts a run at its very end hears that it was too late."""
    if _manifest(output) not in (b"", before):
        stopping.note_committed(output)


@contextlib.contextmanager
def cleaned(output: str, temporary: str, waits: bool, resume: bool) -> Iterator[str]:
    """Gives the run's mark, and removes the temporary folder behind it.

    A run that fails leaves what another one can resume; an interrupted one only if it was to resume itself. What cannot be removed does not hide
    why the run failed.

    Args:
      output, temporary: the dataset, and its temporary folder.
      waits: whether the job is done when the body is; one that goes on needs the folder, and removes it itself.
      resume: whether the run itself resumes.
    """
    run, before = run_lock.leave_mark(temporary), _manifest(output)
    try:
        yield run
    except BaseException as error:
        is_interrupted, left = not isinstance(error, Exception) or stopping.has_raised(), 0
        if _is_another(temporary, run):
            if is_interrupted:
                raise
            raise run_lock.other_run(output, temporary) from error
        with stopping.undisturbed(), contextlib.suppress(Exception):
            left = clear(temporary, keeps=resume or not is_interrupted)
            _note_commit(output, before)
        if left and isinstance(error, DataError):
            shards = "shard is" if left == 1 else "shards are"
            raise DataError(f"{error}\n{left:,} {shards} finished: run again with --resume to keep them.") from error
        raise
    if waits:
        with stopping.undisturbed(), contextlib.suppress(Exception):
            _note_commit(output, before)
            file_changes.delete(temporary)
