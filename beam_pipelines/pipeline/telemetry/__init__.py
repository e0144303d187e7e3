"""What runs report to other programs: metrics, and events of lineage."""
