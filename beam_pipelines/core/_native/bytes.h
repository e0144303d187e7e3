// Reading and writing bytes: numbers, varints, and short texts.

// What "may spill" writes a few bytes more than it should: there must be room (Buffer), and what follows has to be written later.
#pragma once

#include <cstdint>
#include <cstring>

namespace native {

// Every multi-byte number of TFRecord, protobuf and Arrow's buffers here is little-endian, and so is every machine we build for.
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the kernels are written for little-endian machines");

template <typename T>
inline T load(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename T>
inline void store(void* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

// A varint: seven bits a byte, the lowest first; the top bit says that another byte follows. Negative numbers are taken as 64 bits, ten bytes.
// https://protobuf.dev/programming-guides/encoding/#varints

inline size_t varint_size(uint64_t value) {
  unsigned last_bit = 63u ^ static_cast<unsigned>(__builtin_clzll(value | 1));
  return (last_bit * 9 + 73) / 64;  // last_bit / 7 + 1 for 0 to 63, without a division
}

// Writes a varint of `size` bytes and returns what follows it; may spill over it.
inline uint8_t* put_varint(uint8_t* at, uint64_t value, size_t size) {
  if (size <= 4) {  // at once, so that the length is no branch
    const uint32_t low = static_cast<uint32_t>(value);
    const uint32_t spread = (low & 0x7F) | (low & 0x3F80) << 1 | (low & 0x1FC000) << 2 | (low & 0xFE00000) << 3;
    const uint32_t another_follows = 0x00808080u >> (8 * (4 - size));
    store(at, spread | another_follows);
    return at + size;
  }
  for (; value >= 1u << 7; value >>= 7) *at++ = static_cast<uint8_t>(value | 0x80);
  *at = static_cast<uint8_t>(value);
  return at + 1;
}

inline uint8_t* put_varint(uint8_t* at, uint64_t value) { return put_varint(at, value, varint_size(value)); }

// Copies the bytes of a short text at once where 16 can be read and written, which is nearly everywhere: a call and branches on the size
// would cost more. `readable` counts the bytes from `from` on that may be read. May spill.
inline void copy(uint8_t* to, const uint8_t* from, size_t size, size_t readable) {
  if (size <= 16 && readable >= 16) {
    std::memcpy(to, from, 16);
  } else {
    std::memcpy(to, from, size);
  }
}

}  // namespace native
