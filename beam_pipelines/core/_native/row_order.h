// The order of a part's rows in an epoch, as reader/order.py defines it.
#pragma once

#include <cstdint>

namespace native {

// Writes the numbers `first`, `first + 1`, … of `rows` rows to `out`, in the order of a key. Throws std::bad_alloc.
void order_rows(uint64_t key, int64_t rows, int64_t first, int64_t* out);

}  // namespace native
