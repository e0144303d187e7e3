// Instructions of ARM processors for checksums.
#pragma once

#include <arm_acle.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif

#if defined(__clang__)
#define NATIVE_TARGET_CRC __attribute__((target("crc")))
#else
#define NATIVE_TARGET_CRC __attribute__((target("+crc")))
#endif

namespace native {

inline bool has_armv8_crc() {
#if defined(__APPLE__)
  return true;  // every ARM processor of a Mac has them
#elif defined(__linux__)
  constexpr unsigned long kCrc32Bit = 1ul << 7;  // HWCAP_CRC32 of asm/hwcap.h
  return getauxval(AT_HWCAP) & kCrc32Bit;
#else
  return false;
#endif
}

}  // namespace native
