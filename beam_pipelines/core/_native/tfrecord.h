// TFRecord: length (uint64) · masked CRC-32C of the length (uint32) · data · masked CRC-32C of the data (uint32), all little-endian.
// tensorflow/core/lib/io/record_writer.h
#pragma once

#include <cstdint>
#include <vector>

#include "bytes.h"
#include "column.h"
#include "crc32c.h"
#include "memory.h"

namespace native {

constexpr size_t kHeaderBytes = 12;  // length and its CRC
constexpr size_t kFooterBytes = 4;   // CRC of the data

// Writes what stands before a record's data.
inline void put_header(uint8_t* at, uint64_t length) {
  store(at, length);
  store(at + 8, masked(crc32c(at, 8)));
}

// Writes what stands behind them.
inline void put_footer(uint8_t* data, size_t length) { store(data + length, masked(crc32c(data, length))); }

// Records back to back; record i is what lies between the int64 offsets i and i + 1. Both are to be given back.
struct Records {
  Memory data, offsets;
};

// Frames each text of a column. Throws UnknownType, and InvalidData for a null.
Records frame(const Column& texts);

// What is wrong with the first damaged record.
enum class Damage : uint8_t { kNone, kLengthCrc, kDataCrc };

// Where framed records lie.
struct Unframed {
  std::vector<int64_t> starts;  // of each whole record, and of what follows the last one
  Damage damage = Damage::kNone;  // of the record at the last start
};

// Finds the whole records that stand at the beginning of some bytes, and checks both of their CRCs. What follows, if no record is damaged, is
// the beginning of a record, or nothing.
Unframed unframe(const uint8_t* data, size_t size);

}  // namespace native
