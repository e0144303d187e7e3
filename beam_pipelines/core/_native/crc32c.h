// CRC-32C (Castagnoli), the checksum of TFRecord: polynomial 0x1EDC6F41, bits reflected, initial value and final XOR 0xFFFFFFFF.
#pragma once

#include <cstddef>
#include <cstdint>

namespace native {

// The fastest implementation for this processor, chosen when the module is loaded.
extern uint32_t (*const crc32c)(const uint8_t* data, size_t size);

// The implementation for any processor; for tests.
uint32_t crc32c_portable(const uint8_t* data, size_t size);

// "sse4.2", "armv8" or "portable".
const char* crc32c_implementation();

// TFRecord stores masked CRCs, because the CRC of data with an embedded CRC detects few errors.
// tensorflow/core/lib/hash/crc32c.h: Mask.
inline uint32_t masked(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xA282EAD8u; }

}  // namespace native
