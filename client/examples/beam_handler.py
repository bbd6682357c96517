"""A Beam pipeline that asks attnd through RunInference.

    python3 beam_handler.py --target 127.0.0.1:50051

Needs apache-beam. RunInference makes batches; each is one call. The client itself
waits as long as an overloaded server asks; what still fails, and windows that
cannot work, leave by the dead-letter output instead of failing the bundle.
"""

import argparse

import apache_beam as beam
import numpy as np
from apache_beam.ml.inference.base import ModelHandler, PredictionResult, RunInference

import attnd
import co2_windows


class AttndHandler(ModelHandler):
    """Windows in, estimates out; one client for each worker process."""

    def __init__(self, target, max_batch_size=64):
        super().__init__()
        self._target = target
        self._max_batch_size = max_batch_size

    def load_model(self):
        return attnd.Client(self._target)

    def batch_elements_kwargs(self):
        return {"max_batch_size": self._max_batch_size}

    def run_inference(self, batch, model, inference_args=None):
        estimates = co2_windows.estimate_batch(
            model,
            [window["at"] for window in batch],
            [window["times"] for window in batch],
            [window["values"] for window in batch],
        )
        return [
            PredictionResult(window, float(value))
            for window, value in zip(batch, estimates)
        ]

    def get_metrics_namespace(self):
        return "attnd"


class WholeWindows(beam.DoFn):
    """Windows of full length; the others go to the output "dead"."""

    def process(self, window):
        whole = len(window["values"]) == len(window["times"]) == co2_windows.WEEKS - 1
        yield window if whole else beam.pvalue.TaggedOutput("dead", window)


def summary(errors):
    errors = np.array(list(errors))
    return f"{len(errors)} results, rmse {np.sqrt(np.mean(errors**2)):.2f} ppm"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", required=True)
    options, beam_options = parser.parse_known_args()

    windows = list(co2_windows.windows())
    windows[5]["values"].pop()
    with beam.Pipeline(argv=beam_options) as pipeline:
        checked = (
            pipeline
            | beam.Create(windows)
            | beam.ParDo(WholeWindows()).with_outputs("dead", main="whole")
        )
        handler = AttndHandler(options.target)
        results, failed = (
            checked.whole | RunInference(handler).with_exception_handling()
        )
        (
            results
            | beam.Map(lambda result: result.inference - result.example["truth"])
            | beam.combiners.ToList()
            | "Summary" >> beam.Map(summary)
            | beam.Map(print)
        )
        (
            (checked.dead, failed.failed_inferences)
            | beam.Flatten()
            | beam.combiners.Count.Globally()
            | "Dead letters" >> beam.Map("{} dead letters".format)
            | "Print them" >> beam.Map(print)
        )


if __name__ == "__main__":
    main()
