// Counts of characters in texts, many groups of characters at once.
#pragma once

#include <cstdint>

#include "column.h"

namespace native {

// Adds up the weights of each text's bytes, modulo 2^64; 0 for a null.
// `weights` has one of each of the 256 bytes. Throws UnknownType, InvalidData.
void sum_weights(const Column& texts, const uint64_t* weights, uint64_t* sums);

}  // namespace native
