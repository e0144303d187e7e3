// Reading and writing bytes: numbers, varints, and short texts.

// A function that "may spill" also writes some bytes after its result: the buffer must have space
// (Buffer), and those bytes must be written later.
#pragma once

#include <cstdint>
#include <cstring>

namespace native {

// Numbers of TFRecord, protobuf and Arrow's buffers are little-endian, as all supported machines.
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

// A varint: seven bits per byte, the lowest first; the top bit is set if another byte follows.
// Negative numbers have 64 bits, ten bytes.
// https://protobuf.dev/programming-guides/encoding/#varints

inline size_t varint_size(uint64_t value) {
  unsigned last_bit = 63u ^ static_cast<unsigned>(__builtin_clzll(value | 1));
  return (last_bit * 9 + 73) / 64;  // last_bit / 7 + 1 for 0 to 63, without a division
}

// Writes a varint of `size` bytes and returns its end; may spill.
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

// Copies a text; a short one as 16 bytes where they can be read, which is faster than a call and
// branches on the size. `readable`: bytes from `from` on that may be read. May spill.
inline void copy(uint8_t* to, const uint8_t* from, size_t size, size_t readable) {
  if (size <= 16 && readable >= 16) {
    std::memcpy(to, from, 16);
  } else {
    std::memcpy(to, from, size);
  }
}

}  // namespace native
