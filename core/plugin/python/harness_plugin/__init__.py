"""Plugins for harness in Python: a backend that trains BERT, or an optimizer.

An optimizer is a subclass of Optimizer, a backend one of Backend, and the last line of a plugin is

    if __name__ == "__main__":
        serve(Signum())

in an executable file named harness-optimizer-NAME or harness-backend-NAME, in a folder of $HARNESS_PLUGIN_PATH. Harness
starts it and lets it import this package; it needs nothing installed but grpcio, protobuf and numpy.

Parameters, gradients and optimizer state lie in memory that harness owns and shares with its plugins. Here they are
numpy views of that memory (torch.from_numpy makes tensors that are views, too). Where memory cannot be shared, the
package fills and fetches the same arrays around each call.

This is version 1 of the protocol, which docs/plugin-protocol.md of harness describes.
"""

try:
    import google.protobuf
    import grpc
    import numpy
except ImportError as e:
    import sys

    raise ImportError(
        f"{e}: {sys.executable} lacks what harness_plugin needs; on Debian: apt-get install python3-grpcio python3-protobuf python3-numpy"
    ) from e

from ._serve import serve, threads
from .backend import Backend, Evaluation, Phase, Precision, Session, Step, StepResult, Traced
from .bert import PADDING_LOGIT, UNLABELLED, Batch, Loss, Losses, Model, Program
from .cost import Cost, Product, SlotFormat, TensorCost
from .errors import OutOfMemory, Unsupported
from .memory import Kind, Layout, Memory, Tensor
from .optimizer import Optimizer, Update
from .option import Option, Values

__all__ = [
    "Backend", "Batch", "Cost", "Evaluation", "Kind", "Layout", "Loss", "Losses", "Memory", "Model", "Optimizer", "Option", "OutOfMemory",
    "PADDING_LOGIT", "Phase", "Precision", "Product", "Program", "Session", "SlotFormat", "Step", "StepResult", "Tensor", "TensorCost",
    "Traced", "UNLABELLED", "Unsupported", "Update", "Values", "serve", "threads",
]  # fmt: skip
