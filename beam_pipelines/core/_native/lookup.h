// Ids of texts: their numbers in a vocabulary, or hashes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "column.h"
#include "memory.h"

namespace native {

// The slots of a hash table of distinct texts.
struct Slots {
  const uint64_t* slots;
  size_t count;  // a power of two, or 0
};

// The number of slots of an index of so many texts.
size_t slots_for(int64_t texts);

// Makes them: 0, or the upper half of a text's fingerprint and its number + 1. Throws UnknownType, InvalidData.
Memory index_texts(const Column& texts);

// Writes the id of each text to out[0 … texts.length): its number in `known`; else known.length + its fingerprint modulo `num_oov`,
// or -1 if that is 0. Of a null it is -1. Throws UnknownType, InvalidData.
void look_up(const Column& texts, const Column& known, const Slots& slots, uint64_t num_oov, int64_t* out);

}  // namespace native
