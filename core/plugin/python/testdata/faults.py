"""An optimizer whose option names the fault of its session."""

import os
import sys
import time

from harness_plugin import Memory, Option, Optimizer, OutOfMemory, Unsupported, Update, Values, serve


class Faulty(Optimizer):
    name, doc = "faulty", "does something wrong in a step"
    options = [Option("fault", "bug", "what goes wrong")]

    def step(self, options: Values, memory: Memory, update: Update) -> None:
        getattr(self, options.text("fault"))(memory)

    def bad_value(self, memory: Memory) -> None:
        raise ValueError("tensor dense.weight has no columns")

    def bug(self, memory: Memory) -> None:
        return memory.params.no_such_method()

    def long_words(self, memory: Memory) -> None:
        raise ValueError("ä" * 100_000)

    def out_of_memory(self, memory: Memory) -> None:
        raise OutOfMemory("GPU 0 needs 81 GiB, has 80 GiB")

    def unsupported(self, memory: Memory) -> None:
        raise Unsupported("sparse gradients")

    def crash(self, memory: Memory) -> None:
        print("tile 311 is on fire", file=sys.stderr, flush=True)
        os._exit(3)

    def hang(self, memory: Memory) -> None:
        print("waiting for the device", flush=True)  # standard output goes where standard error goes
        time.sleep(600)

    def slow(self, memory: Memory) -> None:
        time.sleep(0.3)
        memory.params[0] = 42


serve(Faulty())
