"""Profiles of sampled rows, and proposals for a first recipe.

Pure functions of Arrow columns: nothing here reads a file.
"""

from beam_pipelines_plugins.first_recipe.column_profile import ColumnProfile as ColumnProfile
from beam_pipelines_plugins.first_recipe.column_profile import Role as Role
from beam_pipelines_plugins.first_recipe.column_profile import profile_column as profile_column
from beam_pipelines_plugins.first_recipe.column_profile import profile_columns as profile_columns
from beam_pipelines_plugins.first_recipe.encodings import Proposal as Proposal
from beam_pipelines_plugins.first_recipe.encodings import propose_encodings as propose_encodings
from beam_pipelines_plugins.first_recipe.joins import JoinProposal as JoinProposal
from beam_pipelines_plugins.first_recipe.joins import Side as Side
from beam_pipelines_plugins.first_recipe.joins import are_related as are_related
from beam_pipelines_plugins.first_recipe.joins import near_join as near_join
from beam_pipelines_plugins.first_recipe.joins import propose_join as propose_join
from beam_pipelines_plugins.first_recipe.labels import Candidate as Candidate
from beam_pipelines_plugins.first_recipe.labels import label_candidates as label_candidates
from beam_pipelines_plugins.first_recipe.splits import SplitProposal as SplitProposal
from beam_pipelines_plugins.first_recipe.splits import propose_splits as propose_splits
from beam_pipelines_plugins.first_recipe.times import DerivedTime as DerivedTime
from beam_pipelines_plugins.first_recipe.times import derive_times as derive_times
