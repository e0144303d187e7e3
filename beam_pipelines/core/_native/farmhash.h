// FarmHash's 64-bit fingerprint of texts, as reference_hashes.py computes it. It never changes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "column.h"

namespace native {

// The fingerprint of `size` bytes.
uint64_t fingerprint(const uint8_t* text, size_t size);

// Writes the fingerprint of each text to out[0 … column.length); of a null that of the empty text.
// Throws UnknownType for a column of other values, InvalidData.
void fingerprints(const Column& column, uint64_t* out);

}  // namespace native
