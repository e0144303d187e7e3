// Compresses parts of a deflate stream. The bytes are the same on every processor. Format: RFC 1951.
#pragma once

#include <cstddef>
#include <cstdint>

namespace native {

// The most bytes that `deflate` writes for `size` bytes.
size_t deflate_bound(size_t size);

// Compresses whole TFRecord frames, or any other bytes, as blocks that end in an empty stored one, at a whole byte.
// Returns the size; `out` has deflate_bound(size) bytes. Throws std::bad_alloc.
size_t deflate(const uint8_t* data, size_t size, uint8_t* out);

}  // namespace native
