"""Serves PyTorch to harness: `backend`, or `optimizer CLASS` for a class of torch.optim; `machine` measures this machine."""

import sys

from harness_torch import environment

environment.prepare()


def main() -> None:
    import harness_plugin

    if sys.argv[1:] == ["machine"]:
        from harness_torch import machine

        machine.main()
        return
    if sys.argv[1:] == ["backend"]:
        from harness_torch.backend import TorchBackend

        harness_plugin.serve(TorchBackend())
    elif len(sys.argv) == 3 and sys.argv[1] == "optimizer":
        from harness_torch.optimizer import TorchOptimizer

        harness_plugin.serve(TorchOptimizer(sys.argv[2]))
    sys.exit(f"{sys.argv[0]}: arguments are {sys.argv[1:]}, want backend, or optimizer CLASS")


main()
