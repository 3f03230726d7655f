"""Optimizers with one fault each, by the name in the first argument."""

import os
import sys
import time

from harness_plugin import Memory, Optimizer, OutOfMemory, Unsupported, Update, Values, serve


class Faulty(Optimizer):
    name, doc = "faulty", "does something wrong in a step"

    def __init__(self, fault: str):
        self.fault = fault

    def step(self, options: Values, memory: Memory, update: Update) -> None:
        getattr(self, self.fault)(memory)

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
        print("waiting for the device", flush=True)  # standard output goes to where errors go
        time.sleep(600)

    def nan(self, memory: Memory) -> None:
        memory.params[1] = float("nan")

    def slow(self, memory: Memory) -> None:
        time.sleep(0.3)
        memory.params[0] = 42


serve(Faulty(sys.argv[1]))
