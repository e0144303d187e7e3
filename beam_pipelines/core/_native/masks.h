// Compares 64 bytes at a time with a byte; bit 0 of the mask is for the first byte.
#pragma once

#include <cstdint>
#include <cstring>

#include "bytes.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__ARM_NEON) && defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace native {

#if defined(__SSE2__)

class Block {
 public:
  static constexpr size_t kSize = 64;

  explicit Block(const uint8_t* from) {
    for (int quarter = 0; quarter < 4; ++quarter) bytes_[quarter] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from) + quarter);
  }

  uint64_t equals(uint8_t byte) const {
    const __m128i wanted = _mm_set1_epi8(static_cast<char>(byte));
    uint64_t mask = 0;
    for (int quarter = 0; quarter < 4; ++quarter) {
      mask |= uint64_t{static_cast<uint16_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(bytes_[quarter], wanted)))} << 16 * quarter;
    }
    return mask;
  }

  // Whether no byte has its top bit set.
  bool is_ascii() const {
    return !_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(bytes_[0], bytes_[1]), _mm_or_si128(bytes_[2], bytes_[3])));
  }

 private:
  __m128i bytes_[4];
};

#elif defined(__ARM_NEON) && defined(__aarch64__)

class Block {
 public:
  static constexpr size_t kSize = 64;

  explicit Block(const uint8_t* from) {
    for (int quarter = 0; quarter < 4; ++quarter) bytes_[quarter] = vld1q_u8(from + 16 * quarter);
  }

  // Keeps one bit of each byte, by its place in a group of eight; three pairwise additions make each group one byte.
  uint64_t equals(uint8_t byte) const {
    const uint8x16_t place = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t wanted = vdupq_n_u8(byte);
    uint8x16_t bits[4];
    for (int quarter = 0; quarter < 4; ++quarter) bits[quarter] = vandq_u8(vceqq_u8(bytes_[quarter], wanted), place);
    const uint8x16_t fours = vpaddq_u8(vpaddq_u8(bits[0], bits[1]), vpaddq_u8(bits[2], bits[3]));
    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(fours, fours)), 0);
  }

  bool is_ascii() const { return vmaxvq_u8(vorrq_u8(vorrq_u8(bytes_[0], bytes_[1]), vorrq_u8(bytes_[2], bytes_[3]))) < 0x80; }

 private:
  uint8x16_t bytes_[4];
};

#else

class Block {
 public:
  static constexpr size_t kSize = 64;

  explicit Block(const uint8_t* from) { std::memcpy(bytes_, from, kSize); }

  uint64_t equals(uint8_t byte) const {
    uint64_t mask = 0;
    for (size_t place = 0; place < kSize; ++place) mask |= uint64_t{bytes_[place] == byte} << place;
    return mask;
  }

  bool is_ascii() const {
    uint8_t all = 0;
    for (const uint8_t byte : bytes_) all |= byte;
    return all < 0x80;
  }

 private:
  uint8_t bytes_[kSize];
};

#endif

// The place of the lowest bit; 63 if there is none.
inline unsigned lowest_bit(uint64_t bits) { return static_cast<unsigned>(__builtin_ctzll(bits | uint64_t{1} << 63)); }

// Each bit becomes the parity of itself and all bits below.
inline uint64_t parity_below(uint64_t bits) {
  for (int shift = 1; shift < 64; shift *= 2) bits ^= bits << shift;
  return bits;
}

}  // namespace native
