"""The settings of a run, and the folders that it writes to."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from beam_pipelines.core.layout.dataset_layout import ENCODINGS, TEMPORARY
from beam_pipelines.files.beam import files


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """The settings of a run, whatever its recipe.

    Attributes:
      output: folder of the dataset; the run makes it.
      overwrite: replaces an existing dataset once the new one is complete.
      resume: takes over the finished shards of an interrupted run of the same recipe, inputs and
        version.
      beam_options: flags for Beam, as on the command line.
      quiet: shows no progress.
    """

    output: str
    overwrite: bool = False
    resume: bool = False
    beam_options: Sequence[str] = ()
    quiet: bool = False

    @property
    def temporary(self) -> str:
        """The temporary folder of the run."""
        return files.join(self.output, TEMPORARY)


@dataclasses.dataclass(frozen=True)
class RunFolders:
    """The folders of a run, and how its steps use them.

    Attributes:
      output: the dataset.
      scratch: temporary files on this machine that never become part of the dataset; empty: they
        are stored in the temporary folder of ``output``.
      mark: the run's mark, by which the commit finds out that another run has begun; empty: the
        commit does not check.
      finds_finished: looks for finished shards of an interrupted run.
    """

    output: str
    scratch: str = ""
    mark: str = ""
    finds_finished: bool = True

    def temporary_of(self, *names: str) -> str:
        """Returns a path in the temporary folder of the run."""
        return files.join(self.output, TEMPORARY, *names)

    def scratch_of(self, *names: str) -> str:
        """Returns the path of a temporary file that no dataset contains."""
        return files.join(self.scratch, *names) if self.scratch else self.temporary_of(*names)

    @property
    def progress(self) -> str:
        """Folder in which local workers note their progress; empty: they do not."""
        folder = self.scratch_of("progress")
        return folder if files.is_local(folder) else ""

    @property
    def encodings(self) -> str:
        """Folder of the fitted encodings; the commit moves it."""
        return self.temporary_of(*ENCODINGS.split("/"))

    @property
    def preprocessing(self) -> str:
        """The working folder of tensorflow-transform."""
        return self.scratch_of("preprocessing")

    def rejected_of(self, side: str) -> str:
        """Returns the folder of rejected rows of ``base`` or ``right`` sources."""
        return self.scratch_of("rejected", side)

    def exchange_of(self, step: str) -> str:
        """Returns the exchange folder of one step."""
        return self.scratch_of("exchange", step)
