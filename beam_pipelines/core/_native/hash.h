// The stable 64-bit hash of column values, as core/arrow/hashing.py defines it. It decides the split of a
// row, so it never changes.
#pragma once

#include <cstdint>
#include <vector>

#include "column.h"

namespace native {

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15u;  // SplitMix64's increment

// The finaliser of SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
inline uint64_t mix(uint64_t value) {
  value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9u;
  value = (value ^ value >> 27) * 0x94D049BB133111EBu;
  return value ^ value >> 31;
}

// Writes the hash of each value to out[0 … column.length). Throws UnknownType, InvalidData.
void hash_column(const Column& column, uint64_t seed, uint64_t* out);

// Writes the hash of each row of several columns of `count` values each.
void hash_rows(const std::vector<Column>& columns, int64_t count, uint64_t seed, uint64_t* out);

}  // namespace native
