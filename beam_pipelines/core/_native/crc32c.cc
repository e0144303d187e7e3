#include "crc32c.h"

#include <array>

#include "bytes.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif
#endif

namespace native {
namespace {

constexpr uint32_t kReflectedPolynomial = 0x82F63B78u;

using Tables = std::array<std::array<uint32_t, 256>, 8>;

// tables[k][b] is the CRC of byte b followed by k zero bytes, so that eight bytes are eight lookups (slicing by 8: Kounavis and Berry,
// "Novel table lookup-based algorithms for high-performance CRC generation", 2008).
constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? kReflectedPolynomial : 0);
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

constexpr Tables kTables = make_tables();

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

#if defined(__clang__)
#define NATIVE_TARGET_CRC __attribute__((target("crc")))
#else
#define NATIVE_TARGET_CRC __attribute__((target("+crc")))
#endif

NATIVE_TARGET_CRC uint32_t crc32c_armv8(const uint8_t* data, size_t size) {
  uint32_t crc = 0xFFFFFFFFu;
  for (; size >= 8; data += 8, size -= 8) crc = __crc32cd(crc, load<uint64_t>(data));
  for (; size; ++data, --size) crc = __crc32cb(crc, *data);
  return ~crc;
}

bool has_instructions() {
#if defined(__APPLE__)
  return true;  // every ARM processor of a Mac has them
#elif defined(__linux__)
  constexpr unsigned long kCrc32Bit = 1ul << 7;  // HWCAP_CRC32 of asm/hwcap.h
  return getauxval(AT_HWCAP) & kCrc32Bit;
#else
  return false;
#endif
}
constexpr auto crc32c_instructions = crc32c_armv8;
constexpr const char* kName = "armv8";

#else

bool has_instructions() { return false; }
constexpr auto crc32c_instructions = crc32c_portable;
constexpr const char* kName = "portable";

#endif

}  // namespace

uint32_t crc32c_portable(const uint8_t* data, size_t size) {
  uint32_t crc = 0xFFFFFFFFu;
  for (; size >= 8; data += 8, size -= 8) {
    const uint64_t word = load<uint64_t>(data) ^ crc;
    crc = 0;
    for (size_t byte = 0; byte < 8; ++byte) crc ^= kTables[7 - byte][word >> (8 * byte) & 0xFF];
  }
  for (; size; ++data, --size) crc = crc >> 8 ^ kTables[0][(crc ^ *data) & 0xFF];
  return ~crc;
}

const char* crc32c_implementation() { return has_instructions() ? kName : "portable"; }

uint32_t (*const crc32c)(const uint8_t*, size_t) = has_instructions() ? crc32c_instructions : crc32c_portable;

}  // namespace native
