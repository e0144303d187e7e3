// Reads protobuf's wire format within a message; functions return false for rare forms.
// https://protobuf.dev/programming-guides/encoding/
#pragma once

#include <cstddef>
#include <cstdint>

#include "bytes.h"

namespace native {

// The remaining bytes of a message. More bytes after them may be readable, for reads of whole words.
struct Message {
  const uint8_t* at;
  const uint8_t* end;
  const uint8_t* readable;  // end of readable memory

  bool is_empty() const { return at == end; }
  size_t size() const { return static_cast<size_t>(end - at); }
};

// Takes a length of 128 or more, of at most four bytes; longer ones (256 MiB, or padded) are rare.
bool take_long_length(Message* from, size_t* length);

// Takes a length and its bytes.
inline bool take_bytes(Message* from, Message* bytes) {
  size_t length;
  if (from->is_empty()) return false;
  if (*from->at < 0x80) length = *from->at++;
  else if (!take_long_length(from, &length)) return false;
  if (length > from->size()) return false;
  *bytes = {from->at, from->at + length, from->readable};
  from->at += length;
  return true;
}

// Takes a length-delimited field with the tag.
inline bool take_field(Message* from, uint8_t tag, Message* content) {
  if (from->is_empty() || *from->at != tag) return false;
  ++from->at;
  return take_bytes(from, content);
}

// Takes a length-delimited field that ends the message.
inline bool take_last_field(Message* from, uint8_t tag, Message* content) { return take_field(from, tag, content) && from->is_empty(); }

constexpr uint64_t kTopBits = 0x8080808080808080u;

// Moves the lower seven bits of each byte together.
inline uint64_t join_sevens(uint64_t word) {
  word &= ~kTopBits;
  word = (word & 0x007F007F007F007Fu) | (word & 0x7F007F007F007F00u) >> 1;
  word = (word & 0x00003FFF00003FFFu) | (word & 0x3FFF00003FFF0000u) >> 2;
  return (word & 0x000000000FFFFFFFu) | (word & 0x0FFFFFFF00000000u) >> 4;
}

// Takes a varint where fewer than ten bytes can be read.
bool take_last_varint(Message* from, uint64_t* value);

// Takes a varint of at most 64 bits; without a branch on its length up to eight bytes.
inline bool take_varint(Message* from, uint64_t* value) {
  if (from->readable - from->at < 10) return take_last_varint(from, value);
  uint64_t word = load<uint64_t>(from->at);
  const uint64_t ends = ~word & kTopBits;
  size_t size;
  if (ends) {
    size = static_cast<size_t>(__builtin_ctzll(ends)) / 8 + 1;
    *value = join_sevens(word & (ends ^ (ends - 1)));
  } else {
    const uint8_t ninth = from->at[8], tenth = from->at[9];
    size = ninth < 0x80 ? 9 : 10;
    if (size == 10 && tenth > 1) return false;
    *value = join_sevens(word) | uint64_t{ninth} << 56;
    if (size == 10) *value = (*value & ~(uint64_t{1} << 63)) | uint64_t{tenth} << 63;
  }
  if (size > from->size()) return false;
  from->at += size;
  return true;
}

}  // namespace native
