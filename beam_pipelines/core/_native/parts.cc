#include "parts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "crc32.h"
#include "inflate.h"

namespace native {
namespace {

// An open file.
class File {
 public:
  // A pipe would wait for a writer.
  explicit File(const char* path) : file_(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~File() {
    if (file_ >= 0) close(file_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // Whether it is a regular file of a size.
  bool has_size(int64_t size) const {
    struct stat found;
    return file_ >= 0 && !fstat(file_, &found) && S_ISREG(found.st_mode) && found.st_size == size;
  }

  bool read(uint8_t* to, int64_t size, int64_t offset) const {
    while (size) {
      const ssize_t count = pread(file_, to, static_cast<size_t>(size), offset);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return false;
      to += count;
      size -= count;
      offset += count;
    }
    return true;
  }

 private:
  int file_;
};

// Returns the bytes of a part in its shard, or null. `memory`: for those of a file.
const uint8_t* stored(const Part& part, uint8_t* memory) {
  if (!part.path) return part.data + part.offset;
  const File file(part.path);
  return file.has_size(part.file_size) && file.read(memory, part.size, part.offset) ? memory : nullptr;
}

bool read_part(const Part& part, bool is_compressed, uint8_t* memory, uint8_t* to) {
  if (is_compressed) {
    const uint8_t* const data = stored(part, memory);
    if (!data || !inflate(data, static_cast<size_t>(part.size), to, static_cast<size_t>(part.framed_size))) return false;
  } else {
    const uint8_t* const data = part.size == part.framed_size ? stored(part, to) : nullptr;
    if (!data) return false;
    if (data != to) std::memcpy(to, data, static_cast<size_t>(part.size));
  }
  return crc32(to, static_cast<size_t>(part.framed_size)) == part.crc;
}

}  // namespace

Records read_parts(const std::vector<Part>& parts, bool is_compressed) {
  size_t bytes = 0, rows = 0, longest = 0;
  for (const Part& part : parts) {
    bytes += static_cast<size_t>(part.framed_size);
    rows += static_cast<size_t>(part.rows);
    if (part.path && is_compressed && static_cast<size_t>(part.size) > longest) longest = static_cast<size_t>(part.size);
  }
  Buffer data(bytes), offsets((rows + 1) * sizeof(int64_t)), memory(longest);
  int64_t* next = reinterpret_cast<int64_t*>(offsets.data());
  size_t base = 0;
  *next++ = 0;
  for (const Part& part : parts) {
    if (!read_part(part, is_compressed, memory.data(), data.data() + base)) return {};
    const Unframed found = unframe(data.data() + base, static_cast<size_t>(part.framed_size));
    if (found.damage != Damage::kNone || found.starts.size() != static_cast<size_t>(part.rows) + 1 || found.starts.back() != part.framed_size) return {};
    for (size_t row = 1; row < found.starts.size(); ++row) *next++ = static_cast<int64_t>(base) + found.starts[row];
    base += static_cast<size_t>(part.framed_size);
  }
  return {data.release(bytes), offsets.release((rows + 1) * sizeof(int64_t))};
}

}  // namespace native
