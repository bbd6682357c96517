"""A Spark job that asks attnd from its executors, in two ways.

    python3 spark_job.py --target 127.0.0.1:50051

Needs pyspark (3.4 or later) with Java, pandas and pyarrow. An attnd.Client can be
pickled, so a closure may simply hold one: each executor process connects by itself.
"""

import argparse

import numpy as np
import pandas as pd
from pyspark.ml.functions import predict_batch_udf
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType

import attnd
import co2_windows


def map_in_pandas(frame, client):
    """Batches of rows as pandas frames, one call for each."""

    def estimate(batches):
        for batch in batches:
            batch["estimate"] = co2_windows.estimate_batch(
                client,
                batch["at"].tolist(),
                batch["times"].tolist(),
                np.stack(batch["values"]),
            )
            yield batch[["at", "truth", "estimate"]]

    return frame.mapInPandas(estimate, "at string, truth double, estimate double")


def predict_batches(frame, client):
    """predict_batch_udf: arrays of numbers, one function made for each executor."""

    def make_predict():
        def predict(at, times, values):
            return co2_windows.estimate_batch(
                client,
                at.astype("datetime64[s]"),
                times.astype("datetime64[s]"),
                values,
            )

        return predict

    weeks = co2_windows.WEEKS - 1
    estimate = predict_batch_udf(
        make_predict,
        return_type=DoubleType(),
        batch_size=64,
        input_tensor_shapes=[[], [weeks], [weeks]],
    )
    seconds = F.transform("times", lambda t: F.unix_timestamp(F.to_timestamp(t)))
    at = F.unix_timestamp(F.to_timestamp("at"))
    return frame.select(
        "at", "truth", estimate(at, seconds, "values").alias("estimate")
    )


def report(name, result):
    rows = result.toPandas()
    rmse = np.sqrt(np.mean((rows["estimate"] - rows["truth"]) ** 2))
    print(f"{name}: {len(rows)} results, rmse {rmse:.2f} ppm")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", required=True)
    client = attnd.Client(parser.parse_args().target)

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", 64)
        .getOrCreate()
    )
    frame = spark.createDataFrame(pd.DataFrame(co2_windows.windows()))
    report("mapInPandas", map_in_pandas(frame, client))
    report("predict_batch_udf", predict_batches(frame, client))
    spark.stop()


if __name__ == "__main__":
    main()
