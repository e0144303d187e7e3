#include "crc32c.h"

#include "bytes.h"
#include "crc_tables.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include "crc_armv8.h"
#endif

namespace native {
namespace {

constexpr CrcTables kTables = make_crc_tables(0x82F63B78u);

#if defined(__x86_64__)

__attribute__((target("sse4.2"))) uint32_t crc32c_sse42(const uint8_t* data, size_t size) {
  uint64_t crc = 0xFFFFFFFFu;
  for (; size >= 8; data += 8, size -= 8) crc = _mm_crc32_u64(crc, load<uint64_t>(data));
  uint32_t rest = static_cast<uint32_t>(crc);
  for (; size; ++data, --size) rest = _mm_crc32_u8(rest, *data);
  return ~rest;
}

bool has_instructions() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("sse4.2");
}
constexpr auto crc32c_instructions = crc32c_sse42;
constexpr const char* kName = "sse4.2";

#elif defined(__aarch64__)

NATIVE_TARGET_CRC uint32_t crc32c_armv8(const uint8_t* data, size_t size) {
  uint32_t crc = 0xFFFFFFFFu;
  for (; size >= 8; data += 8, size -= 8) crc = __crc32cd(crc, load<uint64_t>(data));
  for (; size; ++data, --size) crc = __crc32cb(crc, *data);
  return ~crc;
}

bool has_instructions() { return has_armv8_crc(); }
constexpr auto crc32c_instructions = crc32c_armv8;
constexpr const char* kName = "armv8";

#else

bool has_instructions() { return false; }
constexpr auto crc32c_instructions = crc32c_portable;
constexpr const char* kName = "portable";

#endif

}  // namespace

uint32_t crc32c_portable(const uint8_t* data, size_t size) { return ~crc_by_tables(kTables, 0xFFFFFFFFu, data, size); }

const char* crc32c_implementation() { return has_instructions() ? kName : "portable"; }

uint32_t (*const crc32c)(const uint8_t*, size_t) = has_instructions() ? crc32c_instructions : crc32c_portable;

}  // namespace native
