// Ids of texts: their numbers in a vocabulary, or hashes.
#pragma once

#include <algorithm>
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

// How a text becomes an id: its number in `known`; else known.length + its fingerprint modulo `num_oov`, or -1 if that is 0.
class TextIds {
 public:
  // `known` and `slots` outlive it. Throws UnknownType, InvalidData.
  TextIds(const Column& known, const Slots& slots, uint64_t num_oov);

  // Whether there are texts to search, so that `prefetch` is to be called some time before `find`.
  bool has_texts() const { return known_->length > 0; }
  void prefetch(uint64_t hash) const { __builtin_prefetch(slots_.slots + (hash & (slots_.count - 1))); }

  // Returns the id of a text with this fingerprint. Throws InvalidData where the slots are of other texts.
  int64_t find(const uint8_t* text, size_t size, uint64_t hash) const {
    const int64_t number = has_texts() ? search(text, size, hash) : kUnseen;
    return number != kUnseen || !num_oov_ ? number : known_->length + static_cast<int64_t>(hash_bucket(hash));
  }

  static constexpr int64_t kUnseen = -1;

 private:
  int64_t search(const uint8_t* text, size_t size, uint64_t hash) const;

  // Returns the hash modulo num_oov_, without the processor's slow division.
  uint64_t hash_bucket(uint64_t hash) const {
    __extension__ using Wide = unsigned __int128;
    const uint64_t about = static_cast<uint64_t>(static_cast<Wide>(hash) * inverse_ >> 64);  // at most two less
    uint64_t rest = hash - about * num_oov_;
    for (int step = 0; step < 2; ++step) rest = std::min(rest, rest - num_oov_);  // which wraps around below 0
    return rest;
  }

  const Column* known_;
  Slots slots_;
  uint64_t num_oov_, inverse_;
};

// Writes the id of each text to out[0 … texts.length); of a null -1. Throws UnknownType, InvalidData.
void look_up(const Column& texts, const TextIds& ids, int64_t* out);

}  // namespace native
