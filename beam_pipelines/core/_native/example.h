// Rows of columns as tf.Examples and tf.SequenceExamples, framed as TFRecords if asked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "column.h"
#include "gather.h"
#include "tfrecord.h"

namespace native {

// One column as a feature, with the bytes of its map entry that depend on its name alone.
struct Feature {
  Feature(std::string name, Column column, bool is_feature_list);

  // The entry of one value, up to that value, of no bytes yet. Each of its lengths is a single byte where the value has fewer than
  // `short_sizes` bytes.
  std::string entry;
  size_t short_sizes;
  std::string name;
  Column column;
  bool is_feature_list;  // of a tf.SequenceExample; the others are its context
  uint8_t kind;          // the field of Feature's oneof, as a tag
  std::string key;       // the entry's key, and the tag of its value
};

// Serializes rows of a batch.
//
// The features must be in the order of their names' bytes. The records are protobuf's with
// deterministic = true.
// A null is an absent feature; an empty list is a feature without values; a null step is a Feature without a kind.
// A step of a feature list is a value, or a list of values.
// Throws InvalidData: a row beyond the batch, a null inside a list, a record above 2 GiB, bad offsets.
Records serialize(const std::vector<Feature>& features, int64_t num_rows, const Selection& selection, bool is_sequence, bool framed);

}  // namespace native
