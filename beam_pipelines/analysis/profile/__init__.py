"""Profiles of sampled rows, and proposals for a first recipe.

Pure functions of Arrow columns: nothing here reads a file.
"""

from beam_pipelines.analysis.profile.columns import ColumnProfile as ColumnProfile
from beam_pipelines.analysis.profile.columns import Role as Role
from beam_pipelines.analysis.profile.columns import profile_column as profile_column
from beam_pipelines.analysis.profile.columns import profile_columns as profile_columns
from beam_pipelines.analysis.profile.encodings import Proposal as Proposal
from beam_pipelines.analysis.profile.encodings import propose_encodings as propose_encodings
from beam_pipelines.analysis.profile.joins import JoinProposal as JoinProposal
from beam_pipelines.analysis.profile.joins import Side as Side
from beam_pipelines.analysis.profile.joins import are_related as are_related
from beam_pipelines.analysis.profile.joins import propose_join as propose_join
from beam_pipelines.analysis.profile.labels import Candidate as Candidate
from beam_pipelines.analysis.profile.labels import label_candidates as label_candidates
from beam_pipelines.analysis.profile.splits import SplitProposal as SplitProposal
from beam_pipelines.analysis.profile.splits import propose_splits as propose_splits
from beam_pipelines.analysis.profile.times import DerivedTime as DerivedTime
from beam_pipelines.analysis.profile.times import derive_times as derive_times
