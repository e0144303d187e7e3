// Inflates a part of a shard whose inflated size is known.
// https://www.rfc-editor.org/rfc/rfc1951
#pragma once

#include <cstddef>
#include <cstdint>

namespace native {

// Inflates raw deflate blocks into the `out_size` bytes of `out`. Returns whether the blocks are
// sound, make that many bytes, and end where the data end or with a last block.
//
// A stream that ends between two blocks is whole: a part has no last block. Rare forms are declined: codes that are not complete, other than
// a single distance. Whatever the data are, no byte outside of both memories is read or written.
bool inflate(const uint8_t* data, size_t size, uint8_t* out, size_t out_size);

}  // namespace native
