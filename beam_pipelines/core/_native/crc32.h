// CRC-32 of gzip and zip: polynomial 0x04C11DB7, bits reflected, initial value and final XOR 0xFFFFFFFF.
#pragma once

#include <cstddef>
#include <cstdint>

namespace native {

// The fastest implementation for this processor, chosen when the module is loaded.
extern uint32_t (*const crc32)(const uint8_t* data, size_t size);

// The implementation for any processor; for tests.
uint32_t crc32_portable(const uint8_t* data, size_t size);

}  // namespace native
