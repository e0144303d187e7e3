// Records whose first 16 bytes, a hash, occur in an earlier record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace native {

// Returns for each record that repeats a hash the place of the first record with the hash, then its own, in order of records.
// Throws InvalidData for 2^32 - 1 records or more.
std::vector<int64_t> find_repeats(const uint8_t* records, int64_t count, size_t width);

}  // namespace native
