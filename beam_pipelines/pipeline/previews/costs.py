"""Measured costs, from which ``pipeline/previews/estimate.py`` estimates.

docs/scale.md describes the measurements.
"""

from __future__ import annotations

# CPU seconds for each value (a row has as many as columns), by benchmarks/bench_costs.py on a table
# of 40 columns.
READ_AND_STATISTICS = 58e-9
SHUFFLE_AND_WRITE = 115e-9
# For each value and step of an encoding.
ENCODE = 100e-9
# For each block, to pack and unpack it, whatever its size.
BLOCK = 142e-6
# CPU seconds for each row of the base source; of a hash join, for each of the right source as well.
JOIN_BROADCAST = 0.6e-6
JOIN_HASH = 5.6e-6

# Bytes by benchmarks/bench_costs.py --sizes.
GRAPH_BYTES_PER_RANGE = 14
COUNTS_BYTES = 1000
OFFSET_BYTES = 170
MANIFEST_BYTES_PER_SHARD = 160
# The commit holds the columns of tfrecord/part_index.py twice.
INDEX_BYTES_PER_PART = 88
# An idle worker process after its imports.
PROCESS_BYTES = 466 << 20
