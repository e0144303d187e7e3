#include "images.h"

#include <algorithm>
#include <iterator>

#include "crc32.h"
#include "pool.h"
#include "resize.h"

namespace native {
namespace {

constexpr size_t kHashedBytes = 4096;
constexpr size_t kMostKept = size_t{32} << 20;

struct Text {
  const uint8_t* data;
  size_t size;
};

Cut cut_of(const Text& text, const Jpeg& jpeg, const Wish& wish, int64_t epoch) {
  const int height = jpeg.height(), width = jpeg.width();
  if (wish.crop == Crop::kNone) return {0, 0, static_cast<double>(width), static_cast<double>(height)};
  if (wish.crop == Crop::kCenter) return center_cut(height, width, wish.height, wish.width);
  const size_t hashed = std::min(text.size, kHashedBytes);
  std::vector<uint32_t> entropy = wish.seed;
  add_words(static_cast<uint64_t>(epoch), &entropy);
  add_words(text.size, &entropy);
  add_words(crc32(text.data + text.size - hashed, hashed), &entropy);
  return random_cut(height, width, entropy);
}

int scaled(int pixels, int eighths) { return static_cast<int>((int64_t{pixels} * eighths + 7) / 8); }

// The largest factor that leaves as many pixels as the result has.
int factor_of(const Cut& cut, const Wish& wish) {
  const double scale = std::min((cut.bottom - cut.top) / wish.height, (cut.right - cut.left) / wish.width);
  for (const int factor : {8, 4, 2}) {
    if (factor <= scale) return factor;
  }
  return 1;
}

// Reads a header, and returns whether the picture is one to decode.
bool open(const Text& text, const Wish& wish, Jpeg* jpeg) {
  return text.size >= 2 && text.data[0] == 0xFF && text.data[1] == 0xD8 && jpeg->open() &&
         int64_t{jpeg->height()} * jpeg->width() <= wish.most_pixels;
}

// Writes a picture, or returns false.
bool decode(const Text& text, int64_t epoch, const Wish& wish, const libjpeg::Functions& functions, uint8_t* to) {
  thread_local std::vector<uint8_t> memory;  // kept: new memory takes page faults
  if (memory.size() > kMostKept) std::vector<uint8_t>().swap(memory);
  Jpeg jpeg(functions, text.data, text.size);
  if (!open(text, wish, &jpeg)) return false;
  const Cut cut = cut_of(text, jpeg, wish, epoch);
  const int factor = factor_of(cut, wish), least = 8 / factor;
  const int height = scaled(jpeg.height(), least), width = scaled(jpeg.width(), least);
  int eighths = 8;  // of few pixels, more eighths than `least` leave as many: TurboJPEG takes the most
  while (scaled(jpeg.height(), eighths) > height || scaled(jpeg.width(), eighths) > width) --eighths;
  const bool is_whole = cut.left == 0 && cut.top == 0 && cut.right == jpeg.width() && cut.bottom == jpeg.height();
  Window window{0, 0, height, width};
  if (is_whole && height == wish.height && width == wish.width) {
    return jpeg.begin(eighths, wish.channels, &window) && jpeg.decode(window, to);
  }
  const Box box{static_cast<float>(cut.left / factor), static_cast<float>(cut.top / factor), static_cast<float>(cut.right / factor),
                static_cast<float>(cut.bottom / factor)};
  try {
    window = window_of(height, width, box, wish.height, wish.width);
    if (!jpeg.begin(eighths, wish.channels, &window)) return false;
    const size_t lines = static_cast<size_t>(window.height()) + 1;
    const size_t size = lines * static_cast<size_t>(window.width()) * static_cast<size_t>(wish.channels);
    if (memory.size() < size) memory.resize(size);
    if (!jpeg.decode(window, memory.data())) return false;
    resize({memory.data(), height, width, wish.channels, window}, box, wish.height, wish.width, to);
  } catch (const InvalidData&) {
    return false;
  }
  return true;
}

// Calls a function with the text and the number of each row, in threads; returns the rows for which it returns false.
template <typename Function>
std::vector<int64_t> left_by(const Column& contents, const std::vector<int64_t>& epochs, int threads, const Function& function) {
  if (static_cast<int64_t>(epochs.size()) != contents.length) throw InvalidData("found another number of epochs than of images");
  std::vector<uint8_t> is_done(epochs.size());
  run_in_pool(contents.length, threads, [&](int64_t row) {
    if (!contents.is_valid(row)) return;
    const Range bytes = contents.bytes_range(row);
    const Text text{contents.data + bytes.begin, static_cast<size_t>(bytes.end - bytes.begin)};
    is_done[static_cast<size_t>(row)] = function(text, static_cast<size_t>(row));
  });
  std::vector<int64_t> left;
  for (size_t place = 0; place < is_done.size(); ++place) {
    if (!is_done[place]) left.push_back(static_cast<int64_t>(place));
  }
  return left;
}

}  // namespace

std::vector<int64_t> decode_jpegs(const Column& contents, const std::vector<int64_t>& epochs, const Wish& wish,
                                  const libjpeg::Functions& functions, int threads, uint8_t* to) {
  const size_t size = static_cast<size_t>(wish.height) * static_cast<size_t>(wish.width) * static_cast<size_t>(wish.channels);
  return left_by(contents, epochs, threads,
                 [&](const Text& text, size_t row) { return decode(text, epochs[row], wish, functions, to + row * size); });
}

std::vector<int64_t> cut_jpegs(const Column& contents, const std::vector<int64_t>& epochs, const Wish& wish,
                               const libjpeg::Functions& functions, int threads, float* to) {
  return left_by(contents, epochs, threads, [&](const Text& text, size_t row) {
    Jpeg jpeg(functions, text.data, text.size);
    if (!open(text, wish, &jpeg) || jpeg.is_rgb()) return false;
    const Cut cut = cut_of(text, jpeg, wish, epochs[row]);
    const double found[] = {cut.left, cut.top, cut.right, cut.bottom, static_cast<double>(factor_of(cut, wish))};
    std::copy(std::begin(found), std::end(found), to + row * kCutNumbers);
    return true;
  });
}

}  // namespace native
