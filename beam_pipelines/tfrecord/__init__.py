"""The TFRecord codec: framing, compression, tf.Example, tf.SequenceExample."""
