// Decodes JPEGs by the libjpeg-turbo that another library has loaded.
#pragma once

#include <cstddef>
#include <cstdint>

#include "resize.h"

namespace native {

// libjpeg's binary interface 6.2, as far as decoding needs it: its structs have this layout wherever pointers have 64 bits. The
// library compares their sizes and the version with its own, and refuses others.
namespace libjpeg {

constexpr int kVersion = 62;
enum ColorSpace : int { kUnknown, kGrey, kRgb, kYcc };

struct Decoder;

struct ErrorManager {
  void (*error_exit)(Decoder*);  // does not return
  void (*emit_message)(Decoder*, int level);
  void (*output_message)(Decoder*);
  void (*format_message)(Decoder*, char*);
  void (*reset)(Decoder*);
  uint8_t others[128];
};

struct Component {
  int id, index, h_samples, v_samples;
  uint8_t others[80];
};

struct Decoder {
  ErrorManager* errors;
  void *memory, *progress, *client;
  int is_decoder, state;
  void* source;
  unsigned image_width, image_height;
  int num_components, color_space, out_color_space;
  unsigned scale, scale_of;
  uint8_t options[60];
  unsigned width, height;
  int out_components, components, rows_at_once;
  uint8_t colors[12];
  unsigned line;
  uint8_t scans[20];
  int (*missing_bits)[64];  // of each component's coefficients; of progressive pictures only
  uint8_t tables[96];
  int precision;
  Component* parts;
  int is_progressive, is_arithmetic;
  uint8_t others[312];
};

static_assert(sizeof(void*) != 8 || (sizeof(ErrorManager) == 168 && sizeof(Component) == 96 && sizeof(Decoder) == 632 &&
                                     offsetof(Decoder, scale) == 68 && offsetof(Decoder, width) == 136 && offsetof(Decoder, line) == 168 &&
                                     offsetof(Decoder, missing_bits) == 192 && offsetof(Decoder, precision) == 296 && offsetof(Decoder, is_progressive) == 312));

// Functions of the library, in the order of kernels' argument `libjpeg`.
struct Functions {
  ErrorManager* (*std_error)(ErrorManager*);
  void (*create)(Decoder*, int version, size_t size);
  void (*read_from)(Decoder*, const uint8_t*, unsigned long size);
  int (*read_header)(Decoder*, int needs_image);
  int (*start)(Decoder*);
  unsigned (*read_lines)(Decoder*, uint8_t** lines, unsigned most);
  void (*crop_lines)(Decoder*, unsigned* left, unsigned* width);
  unsigned (*skip_lines)(Decoder*, unsigned count);
  int (*finish)(Decoder*);
  void (*destroy)(Decoder*);
};

}  // namespace libjpeg

// A JPEG that is being decoded. No function throws: once one has returned false, the JPEG is damaged, or of a rare kind.
class Jpeg {
 public:
  Jpeg(const libjpeg::Functions& functions, const uint8_t* data, size_t size) : call_(functions), data_(data), size_(size) {}
  ~Jpeg();
  Jpeg(const Jpeg&) = delete;
  Jpeg& operator=(const Jpeg&) = delete;

  // Reads the header. Accepts grey, RGB and YCbCr of 8 bits, Huffman-coded, with colors at full size or a half of it.
  bool open();

  int height() const { return static_cast<int>(decoder_.image_height); }
  int width() const { return static_cast<int>(decoder_.image_width); }
  bool is_rgb() const { return decoder_.color_space == libjpeg::kRgb; }

  // Begins to decode the picture at `eighths` / 8 of its size, rounded up, in 1 or 3 channels. Sets `window`, which has at least
  // the asked-for pixels, to those that `decode` will write.
  bool begin(int eighths, int channels, Window* window);

  // Writes the window, [height, width, channels], and may write a line more. All data are read: a warning of the library, also
  // about other parts of the picture, is an error.
  bool decode(const Window& window, uint8_t* to);

 private:
  libjpeg::Functions call_;
  const uint8_t* data_;
  size_t size_;
  libjpeg::Decoder decoder_{};
  libjpeg::ErrorManager errors_{};
  bool is_made_ = false;
};

}  // namespace native
