"""Reports of a run to other programs: metrics and lineage."""
