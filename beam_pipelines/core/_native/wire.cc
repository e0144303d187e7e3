#include "wire.h"

namespace native {

bool take_long_length(Message* from, size_t* length) {
  *length = 0;
  for (int shift = 0; shift < 28 && !from->is_empty(); shift += 7) {
    const uint8_t byte = *from->at++;
    *length |= size_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

bool take_last_varint(Message* from, uint64_t* value) {
  *value = 0;
  for (int shift = 0; !from->is_empty(); shift += 7) {
    const uint8_t byte = *from->at++;
    *value |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

}  // namespace native
