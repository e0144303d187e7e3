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

// Writes the header of a record.
inline void put_header(uint8_t* at, uint64_t length) {
  store(at, length);
  store(at + 8, masked(crc32c(at, 8)));
}

// Writes the footer of a record.
inline void put_footer(uint8_t* data, size_t length) { store(data + length, masked(crc32c(data, length))); }

// Contiguous records; record i is between the int64 offsets i and i + 1. Both go to give_back.
struct Records {
  Memory data, offsets;
};

// Frames each text of a column. Throws UnknownType, and InvalidData for a null.
Records frame(const Column& texts);

// The damage of the first damaged record.
enum class Damage : uint8_t { kNone, kLengthCrc, kDataCrc };

// The places of framed records.
struct Unframed {
  std::vector<int64_t> starts;  // of each whole record, and the end of the last one
  Damage damage = Damage::kNone;  // of the record at the last start
};

// Finds the whole records at the start of bytes, and checks both of their CRCs. The beginning of a
// record, or nothing, follows if none is damaged.
Unframed unframe(const uint8_t* data, size_t size);

}  // namespace native
