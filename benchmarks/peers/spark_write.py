"""PySpark: a typed read, a shuffle and the TFRecord connector.

The shuffle is ``orderBy(rand())``. Where Maven does not have spark-tfrecord,
``spark/WriteExamples.java`` replaces it: rows become tf.Examples in the JVM either way. The types
are given, which saves Spark a read. The clock starts after the start of the session.
"""

from __future__ import annotations

import pathlib
import sys
import time

import options
from pyspark.ml.feature import StringIndexer
from pyspark.sql import DataFrame, SparkSession, functions, types

GZIP = "org.apache.hadoop.io.compress.GzipCodec"


def encoded(table: DataFrame) -> DataFrame:
    """Fills, takes logarithms and standardises numbers; gives texts ids.

    The vocabularies are unlimited, because Spark ML has no others.
    """
    logarithms = {
        name: functions.log1p(functions.coalesce(name, functions.lit(0)))
        for name in options.INTEGERS
    }
    table = table.withColumns(logarithms)
    moments = [
        moment(name)
        for name in options.INTEGERS
        for moment in (functions.mean, functions.stddev_pop)
    ]
    found = iter(table.agg(*moments).first())
    scaled = {
        name: ((functions.col(name) - next(found)) / next(found)).cast("float")
        for name in options.INTEGERS
    }
    ids = [f"{name}_id" for name in options.TEXTS]
    indexer = StringIndexer(inputCols=options.TEXTS, outputCols=ids, handleInvalid="keep")
    indexed = indexer.fit(table).transform(table.withColumns(scaled))
    integers = [
        functions.col(identity).cast("bigint").alias(name)
        for identity, name in zip(ids, options.TEXTS, strict=True)
    ]
    return indexed.select(options.LABEL, *options.INTEGERS, *integers)


def main() -> None:
    """Reads, encodes if asked to, shuffles, writes."""
    arguments = options.parse(__doc__)
    jars = sorted((pathlib.Path(sys.prefix) / "jars").glob("*.jar"))
    has_connector = any(jar.name.startswith("spark-tfrecord") for jar in jars)
    settings = {
        # The default of 1 GB is too little for a sort of a million rows
        "spark.driver.memory": "4g",
        "spark.sql.shuffle.partitions": 4
        * arguments.cores,  # the default of 200 is meant for a cluster
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.jars": ",".join(map(str, jars)),
        "spark.driver.extraClassPath": ":".join(map(str, jars)),
    }
    spark = (
        SparkSession.builder.master(f"local[{arguments.cores}]").config(map=settings).getOrCreate()
    )
    start = time.perf_counter()
    kinds = {
        name: types.LongType() if name in options.NUMBERS else types.StringType()
        for name in options.COLUMNS
    }
    schema = types.StructType([types.StructField(name, kind) for name, kind in kinds.items()])
    source = str(arguments.input)
    table = (
        spark.read.csv(source, schema=schema, header=True)
        if arguments.input.suffix == ".csv"
        else spark.read.parquet(source)
    )
    table = (encoded(table) if arguments.encodings else table).orderBy(functions.rand(7))
    output = str(arguments.output / "records")
    codec = GZIP if arguments.compression == "gzip" else ""
    if has_connector:
        writer = table.write.format("tfrecord").option("recordType", "Example")
        (writer.option("codec", codec) if codec else writer).save(output)
    else:
        spark._jvm.WriteExamples.write(table._jdf, output, codec)  # noqa: SLF001 - how PySpark calls functions of a jar
    options.report(time.perf_counter() - start)
    spark.stop()


if __name__ == "__main__":
    main()
