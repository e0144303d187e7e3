"""What things cost: constants that were measured, which ``scale`` multiplies. docs/scale.md says on
what, and how to measure them again.
"""

from __future__ import annotations

# CPU seconds for each value (a row has as many as columns), by benchmarks/bench_costs.py on a table
# of 40 columns.
READ_AND_STATISTICS = 58e-9
SHUFFLE_AND_WRITE = 115e-9
# For each value and step of an encoding.
ENCODE = 100e-9
# For each block, to be packed and unpacked, whatever is in it.
BLOCK = 142e-6
# CPU seconds for each row of the base source; of a hash join, for each of the right source as well.
JOIN_BROADCAST = 0.6e-6
JOIN_HASH = 5.6e-6

# Bytes by benchmarks/bench_costs.py --sizes.
GRAPH_BYTES_PER_RANGE = 14
COUNTS_BYTES = 1000
OFFSET_BYTES = 170
MANIFEST_BYTES_PER_SHARD = 160
# Of a worker process that has imported everything and waits.
PROCESS_BYTES = 466 << 20
