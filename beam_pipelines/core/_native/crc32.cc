#include "crc32.h"

#include "bytes.h"
#include "crc_tables.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#include <wmmintrin.h>
#elif defined(__aarch64__)
#include "crc_armv8.h"
#endif

namespace native {
namespace {

constexpr CrcTables kTables = make_crc_tables(0xEDB88320u);

#if defined(__x86_64__)

// x to a power modulo the polynomial, its bits reflected, as a factor of reflected words.
constexpr uint64_t power(unsigned exponent) {
  uint32_t value = 1;
  for (unsigned step = 0; step < exponent; ++step) value = value << 1 ^ (value >> 31 ? 0x04C11DB7u : 0);
  uint64_t reflected = 0;
  for (int bit = 0; bit < 32; ++bit) reflected |= uint64_t{value >> bit & 1} << (31 - bit);
  return reflected << 1;
}

// Moves 16 bytes over `bits` bits that follow them: their remainder stays the same (Gopal and others, "Fast CRC computation for
// generic polynomials using PCLMULQDQ", 2009). Of the two halves, the first one is farther away.
template <unsigned bits>
__attribute__((target("pclmul"))) inline __m128i moved(__m128i value) {
  const __m128i factors = _mm_set_epi64x(static_cast<int64_t>(power(bits - 32)), static_cast<int64_t>(power(bits + 32)));
  return _mm_xor_si128(_mm_clmulepi64_si128(value, factors, 0x00), _mm_clmulepi64_si128(value, factors, 0x11));
}

__m128i load_16(const uint8_t* from) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)); }

__attribute__((target("pclmul"))) uint32_t crc32_pclmul(const uint8_t* data, size_t size) {
  if (size < 64) return crc32_portable(data, size);
  __m128i lanes[4];
  for (int lane = 0; lane < 4; ++lane) lanes[lane] = load_16(data + 16 * lane);
  lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi32_si128(-1));  // the initial value
  for (data += 64, size -= 64; size >= 64; data += 64, size -= 64) {
    for (int lane = 0; lane < 4; ++lane) lanes[lane] = _mm_xor_si128(moved<512>(lanes[lane]), load_16(data + 16 * lane));
  }
  __m128i last = lanes[0];
  for (int lane = 1; lane < 4; ++lane) last = _mm_xor_si128(moved<128>(last), lanes[lane]);
  for (; size >= 16; data += 16, size -= 16) last = _mm_xor_si128(moved<128>(last), load_16(data));
  uint8_t bytes[16];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(bytes), last);
  return ~crc_by_tables(kTables, crc_by_tables(kTables, 0, bytes, sizeof bytes), data, size);
}

bool has_instructions() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("pclmul");
}
constexpr auto crc32_instructions = crc32_pclmul;

#elif defined(__aarch64__)

NATIVE_TARGET_CRC uint32_t crc32_armv8(const uint8_t* data, size_t size) {
  uint32_t crc = 0xFFFFFFFFu;
  for (; size >= 8; data += 8, size -= 8) crc = __crc32d(crc, load<uint64_t>(data));
  for (; size; ++data, --size) crc = __crc32b(crc, *data);
  return ~crc;
}

bool has_instructions() { return has_armv8_crc(); }
constexpr auto crc32_instructions = crc32_armv8;

#else

bool has_instructions() { return false; }
constexpr auto crc32_instructions = crc32_portable;

#endif

}  // namespace

uint32_t crc32_portable(const uint8_t* data, size_t size) { return ~crc_by_tables(kTables, 0xFFFFFFFFu, data, size); }

uint32_t (*const crc32)(const uint8_t*, size_t) = has_instructions() ? crc32_instructions : crc32_portable;

}  // namespace native
