#include "jpeg.h"

#include <csetjmp>
#include <algorithm>

// Without the signal mask, which takes a system call where setjmp saves it.
#define NATIVE_CATCH(place) (_setjmp(place) != 0)

namespace native {
namespace {

constexpr unsigned kLines = 16;
constexpr int kMargin = 2;  // pixels around the window: the colors of its edges come from them

unsigned scaled(unsigned pixels, int eighths) { return static_cast<unsigned>((uint64_t{pixels} * static_cast<unsigned>(eighths) + 7) / 8); }

// The library calls this in place of a return. No object with a destructor is in the frames between.
void jump_out(libjpeg::Decoder* decoder) { std::longjmp(*static_cast<std::jmp_buf*>(decoder->client), 1); }

void on_message(libjpeg::Decoder* decoder, int level) {
  if (level < 0) jump_out(decoder);  // a warning: the data are damaged
}

void say_nothing(libjpeg::Decoder*) {}

// Whether TurboJPEG knows how the colors are sampled; of others it decodes some only, and so may Pillow.
bool is_common(const libjpeg::Decoder& decoder) {
  const libjpeg::Component* parts = decoder.parts;
  if (decoder.precision != 8 || decoder.is_arithmetic) return false;
  if (decoder.num_components == 1) return decoder.color_space == libjpeg::kGrey;
  if (decoder.num_components != 3 || (decoder.color_space != libjpeg::kRgb && decoder.color_space != libjpeg::kYcc)) return false;
  for (int place = 1; place < 3; ++place) {
    if (parts[place].h_samples != 1 || parts[place].v_samples != 1) return false;
  }
  return (parts[0].h_samples == 1 || parts[0].h_samples == 2) && (parts[0].v_samples == 1 || parts[0].v_samples == 2);
}

// Whether scans are missing. The library then smooths blocks by their neighbours, other ones at the edges of a window.
bool lacks_scans(const libjpeg::Decoder& decoder) {
  if (!decoder.is_progressive || decoder.missing_bits == nullptr) return false;
  for (int part = 0; part < decoder.num_components; ++part) {
    const int* bits = decoder.missing_bits[part];
    if (std::any_of(bits, bits + 64, [](int missing) { return missing != 0; })) return true;
  }
  return false;
}

}  // namespace

Jpeg::~Jpeg() {
  if (is_made_) call_.destroy(&decoder_);
}

bool Jpeg::open() {
  std::jmp_buf place;
  decoder_.errors = call_.std_error(&errors_);
  errors_.error_exit = jump_out;
  errors_.emit_message = on_message;
  errors_.output_message = say_nothing;
  decoder_.client = &place;  // `create` keeps it
  if (NATIVE_CATCH(place)) return false;
  call_.create(&decoder_, libjpeg::kVersion, sizeof decoder_);
  is_made_ = true;
  call_.read_from(&decoder_, data_, size_);
  call_.read_header(&decoder_, 1);
  return is_common(decoder_);
}

bool Jpeg::begin(int eighths, int channels, Window* window) {
  std::jmp_buf place;
  decoder_.client = &place;
  if (NATIVE_CATCH(place)) return false;
  decoder_.out_color_space = channels == 1 ? libjpeg::kGrey : libjpeg::kRgb;
  decoder_.scale = static_cast<unsigned>(eighths);
  decoder_.scale_of = 8;
  call_.start(&decoder_);
  const unsigned height = scaled(decoder_.image_height, eighths), width = scaled(decoder_.image_width, eighths);
  if (decoder_.height != height || decoder_.width != width || decoder_.components != channels) return false;
  if (lacks_scans(decoder_)) return false;
  unsigned left = static_cast<unsigned>(std::max(0, window->left - kMargin));
  unsigned found = std::min(width, static_cast<unsigned>(window->right + kMargin)) - left;
  if (found < width) {
    call_.crop_lines(&decoder_, &left, &found);
    window->left = static_cast<int>(left);
    window->right = static_cast<int>(left + found);
  } else {
    window->left = 0;
    window->right = static_cast<int>(width);
  }
  return true;
}

bool Jpeg::decode(const Window& window, uint8_t* to) {
  std::jmp_buf place;
  decoder_.client = &place;
  if (NATIVE_CATCH(place)) return false;
  const size_t stride = static_cast<size_t>(window.width()) * static_cast<size_t>(decoder_.components);
  const unsigned top = static_cast<unsigned>(window.top), bottom = static_cast<unsigned>(window.bottom);
  if (top > 0) call_.skip_lines(&decoder_, top);
  while (decoder_.line < bottom) {
    uint8_t* lines[kLines];
    const unsigned count = std::min(kLines, bottom - decoder_.line);
    for (unsigned at = 0; at < count; ++at) lines[at] = to + (decoder_.line - top + at) * stride;
    call_.read_lines(&decoder_, lines, count);
  }
  if (bottom < decoder_.height) {  // skipping to the end would not read the data
    if (bottom + 1 < decoder_.height) call_.skip_lines(&decoder_, decoder_.height - 1 - bottom);
    uint8_t* line = to + (bottom - top) * stride;
    call_.read_lines(&decoder_, &line, 1);
  }
  call_.finish(&decoder_);
  return true;
}

}  // namespace native
