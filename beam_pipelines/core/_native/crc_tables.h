// Cyclic redundancy checks of 32 bits by tables, for any processor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "bytes.h"

namespace native {

// tables[k][b] is the CRC of byte b followed by k zero bytes, so that eight bytes are eight lookups (slicing by 8: Kounavis and Berry,
// "Novel table lookup-based algorithms for high-performance CRC generation", 2008).
using CrcTables = std::array<std::array<uint32_t, 256>, 8>;

constexpr CrcTables make_crc_tables(uint32_t reflected_polynomial) {
  CrcTables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? reflected_polynomial : 0);
    tables[0][byte] = crc;
  }
  for (uint32_t byte = 0; byte < 256; ++byte) {
    for (size_t zeros = 1; zeros < 8; ++zeros) {
      const uint32_t before = tables[zeros - 1][byte];
      tables[zeros][byte] = before >> 8 ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}

// Continues a CRC that was not inverted at its end.
inline uint32_t crc_by_tables(const CrcTables& tables, uint32_t crc, const uint8_t* data, size_t size) {
  for (; size >= 8; data += 8, size -= 8) {
    const uint64_t word = load<uint64_t>(data) ^ crc;
    crc = 0;
    for (size_t byte = 0; byte < 8; ++byte) crc ^= tables[7 - byte][word >> (8 * byte) & 0xFF];
  }
  for (; size; ++data, --size) crc = crc >> 8 ^ tables[0][(crc ^ *data) & 0xFF];
  return crc;
}

}  // namespace native
