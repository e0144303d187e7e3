// Sets of character sequences of texts, as core/shingles.py defines them: their MinHash signatures and similarities.
#pragma once

#include <cstdint>

#include "column.h"

namespace native {

// Writes for each text `bands` hashes of `rows` minima each, and a hash of the whole text: out[length * (bands + 1)].
// A null or empty text has zeros. Throws UnknownType, InvalidData.
void band_hashes(const Column& texts, int64_t bands, int64_t rows, uint64_t* out);

// Writes the Jaccard similarity of each pair of texts; of a null or empty text it is 0.
void similarities(const Column& left, const Column& right, double* out);

}  // namespace native
