#include "tfrecord.h"

#include <string>

namespace native {

Records frame(const Column& texts) {
  if (texts.kind != Kind::kBytes && texts.kind != Kind::kLargeBytes) throw UnknownType("records");
  const size_t count = static_cast<size_t>(texts.length);
  const size_t frames = count * (kHeaderBytes + kFooterBytes);
  Buffer out(static_cast<size_t>(texts.limits.end - texts.limits.begin) + frames), offsets((count + 1) * sizeof(int64_t));
  uint8_t* at = out.data();
  store<int64_t>(offsets.data(), 0);
  for (int64_t row = 0; row < texts.length; ++row) {
    if (!texts.is_valid(row)) throw InvalidData("records: found a null at place " + std::to_string(row) + ", expected a record");
    const Range range = texts.bytes_range(row);
    const size_t size = static_cast<size_t>(range.end - range.begin);
    at = out.room(at, kHeaderBytes + size + kFooterBytes);
    put_header(at, size);
    std::memcpy(at + kHeaderBytes, texts.data + range.begin, size);
    put_footer(at + kHeaderBytes, size);
    at += kHeaderBytes + size + kFooterBytes;
    store<int64_t>(offsets.data() + static_cast<size_t>(row + 1) * sizeof(int64_t), at - out.data());
  }
  return {out.release(static_cast<size_t>(at - out.data())), offsets.release((count + 1) * sizeof(int64_t))};
}

Unframed unframe(const uint8_t* data, size_t size) {
  Unframed found;
  size_t start = 0;
  found.starts.push_back(0);
  while (size - start >= kHeaderBytes) {
    const uint8_t* header = data + start;
    const uint64_t length = load<uint64_t>(header);
    if (load<uint32_t>(header + 8) != masked(crc32c(header, 8))) {
      found.damage = Damage::kLengthCrc;
      break;
    }
    const size_t left = size - start - kHeaderBytes;
    if (left < kFooterBytes || left - kFooterBytes < length) break;
    const uint8_t* record = header + kHeaderBytes;
    if (load<uint32_t>(record + length) != masked(crc32c(record, static_cast<size_t>(length)))) {
      found.damage = Damage::kDataCrc;
      break;
    }
    start += kHeaderBytes + static_cast<size_t>(length) + kFooterBytes;
    found.starts.push_back(static_cast<int64_t>(start));
  }
  return found;
}

}  // namespace native
