// Distributions of many columns: ascending numbers with counts, added up over parts.
#pragma once

#include <cstdint>
#include <vector>

#include "memory.h"

namespace native {

// A part of each column, one column after the other.
struct Counted {
  const int64_t* values = nullptr;  // int64 or the bits of float64; ascending in a column, not NaN
  const uint8_t* small = nullptr;   // of each value: its count, if all are below 256
  const int64_t* counts = nullptr;  // else
  const int64_t* ends = nullptr;    // of each column among the values
  int64_t num_values = 0, num_columns = 0;
};

// All parts of each column. `moved` is the largest change of a rank, 0 where all values are kept. It owns its buffers.
struct Merged {
  Memory values, counts, ends, moved;
  int64_t num_values = 0;

  Merged() = default;
  Merged(const Merged&) = delete;
  Merged& operator=(const Merged&) = delete;
  ~Merged();
};

// Adds up parts of the same columns. More than `most` values of a column become about `points`.
// Throws InvalidData, std::bad_alloc.
void merge_counts(const std::vector<Counted>& parts, bool is_float, int64_t most, int64_t points, Merged* merged);

}  // namespace native
