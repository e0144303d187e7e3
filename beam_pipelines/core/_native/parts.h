// Reads parts of shards: from the file to checked frames.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tfrecord.h"

namespace native {

// A part, as the index has it.
struct Part {
  const char* path;  // of the shard; null if `data` has the part
  const uint8_t* data;
  int64_t file_size;    // of the shard
  int64_t offset, size;  // of the part in the shard, or in `data`
  int64_t framed_size;  // of its records, inflated
  int64_t rows;
  uint32_t crc;         // CRC-32 of its records
};

// The bytes of the parts' frames, and the offsets of all. Returns no memory if a part is not as the index has it, or cannot be
// read: a caller that looks at one part after the other finds out why.
Records read_parts(const std::vector<Part>& parts, bool is_compressed);

}  // namespace native
