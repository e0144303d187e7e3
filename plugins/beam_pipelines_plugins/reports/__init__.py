"""Reports of runs to other programs: metrics, and events of lineage."""
