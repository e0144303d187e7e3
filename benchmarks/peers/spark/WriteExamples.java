// What spark-tfrecord does between Spark and its files, for where Maven does not have it: each row of a DataFrame becomes a tf.Example by protobuf's builders,
// and TensorFlow's own Hadoop output format frames it. All of it runs in the JVM, in as many threads as the session has.

import com.google.protobuf.ByteString;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.spark.api.java.function.PairFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.tensorflow.example.BytesList;
import org.tensorflow.example.Example;
import org.tensorflow.example.Feature;
import org.tensorflow.example.Features;
import org.tensorflow.example.FloatList;
import org.tensorflow.example.Int64List;
import org.tensorflow.hadoop.io.TFRecordFileOutputFormat;
import scala.Tuple2;

public final class WriteExamples {
  private WriteExamples() {}

  /** Writes a DataFrame of bigint, float and string columns; a null is a feature that is absent. An empty codec: no compression. */
  public static void write(Dataset<Row> rows, String path, String codec) {
    String[] names = rows.columns();
    Configuration configuration = new Configuration(rows.sparkSession().sparkContext().hadoopConfiguration());
    configuration.setBoolean("mapreduce.output.fileoutputformat.compress", !codec.isEmpty());
    if (!codec.isEmpty()) configuration.set("mapreduce.output.fileoutputformat.compress.codec", codec);
    PairFunction<Row, BytesWritable, NullWritable> serialize =
        row -> new Tuple2<>(new BytesWritable(example(names, row).toByteArray()), NullWritable.get());
    rows.toJavaRDD()
        .mapToPair(serialize)
        .saveAsNewAPIHadoopFile(
            path, BytesWritable.class, NullWritable.class, TFRecordFileOutputFormat.class, configuration);
  }

  private static Example example(String[] names, Row row) {
    Features.Builder features = Features.newBuilder();
    for (int column = 0; column < names.length; column++) {
      if (!row.isNullAt(column)) features.putFeature(names[column], feature(row.get(column)));
    }
    return Example.newBuilder().setFeatures(features).build();
  }

  private static Feature feature(Object value) {
    Feature.Builder feature = Feature.newBuilder();
    if (value instanceof Long) {
      return feature.setInt64List(Int64List.newBuilder().addValue((Long) value)).build();
    }
    if (value instanceof Float) {
      return feature.setFloatList(FloatList.newBuilder().addValue((Float) value)).build();
    }
    ByteString bytes = ByteString.copyFromUtf8((String) value);
    return feature.setBytesList(BytesList.newBuilder().addValue(bytes)).build();
  }
}
