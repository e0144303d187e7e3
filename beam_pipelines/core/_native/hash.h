// The stable 64-bit hash of column values, as core/hashing.py defines it. It decides the split of a
// row, so it never changes.
#pragma once

#include <cstdint>
#include <vector>

#include "column.h"

namespace native {

// Writes the hash of each value to out[0 … column.length). Throws UnknownType, InvalidData.
void hash_column(const Column& column, uint64_t seed, uint64_t* out);

// Writes the hash of each row of several columns of `count` values each.
void hash_rows(const std::vector<Column>& columns, int64_t count, uint64_t seed, uint64_t* out);

}  // namespace native
