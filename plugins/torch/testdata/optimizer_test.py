"""Holds optimizers over harness's memory against the same classes of torch.optim in plain use: equal bits, also when a session begins anew in the middle.

    PYTHONPATH=core/plugin/python:plugins/torch /usr/bin/python3 plugins/torch/testdata/optimizer_test.py
"""

import sys
import unittest

import numpy as np
import torch

from harness_plugin import Kind, Layout, Memory, Tensor, Unsupported, Update, Values
from harness_torch import machine
from harness_torch.optimizer import TorchOptimizer

LAYOUT = Layout([
    Tensor("embeddings.weight", (31, 7), Kind.EMBEDDING),
    Tensor("dense.weight", (5, 8), Kind.WEIGHT),
    Tensor("dense.bias", (1,), Kind.BIAS),
    Tensor("LayerNorm.weight", (32,), Kind.NORM_SCALE),
])  # fmt: skip
RATES = [0.01, 0.02, 0.015, 0.005]
# Settings other than the defaults, where a class keeps other state with them.
CASES = {
    "Adadelta": {}, "Adagrad": {"initial_accumulator_value": "0.1", "lr_decay": "0.1"}, "Adam": {"amsgrad": "true"}, "AdamW": {"beta2": "0.98"},
    "Adamax": {}, "ASGD": {"t0": "2"}, "NAdam": {}, "RAdam": {}, "RMSprop": {"centered": "true", "momentum": "0.9"}, "Rprop": {"eta2": "1.3"},
    "SGD": {"momentum": "0.9", "nesterov": "true"},
}  # fmt: skip


def gradients(step: int) -> np.ndarray:
    r = np.random.default_rng(step)
    section = np.zeros(len(LAYOUT), np.float32)
    for t in LAYOUT.tensors:
        t.of(section)[...] = r.standard_normal(t.shape, np.float32)
    return section


class Optimizers(unittest.TestCase):
    def memory(self, slots: int) -> Memory:
        m = Memory(LAYOUT, [np.zeros(len(LAYOUT), np.float32) for _ in range(2 + slots)], shared=False)
        m.params[:] = gradients(0)
        return m

    def plain(self, name: str, given: dict) -> list[torch.Tensor]:
        """Parameters after all steps of the class by itself."""
        parameters = [torch.from_numpy(t.of(gradients(0)).copy()).requires_grad_() for t in LAYOUT.tensors]
        o = TorchOptimizer(name)
        settings = o.settings(Values(o.options, given))
        groups = [{"params": parameters[:2]}, {"params": parameters[2:]}]
        if settings.get("weight_decay"):
            groups[1]["weight_decay"] = 0  # biases and layer norms do not decay
        rule = getattr(torch.optim, name)(groups, lr=1e-3, **settings)
        for i, lr in enumerate(RATES, 1):
            for p, t in zip(parameters, LAYOUT.tensors):
                p.grad = torch.from_numpy(t.of(gradients(i)))
            for group in rule.param_groups:
                group["lr"] = lr
            rule.step()
        return parameters

    def test_same_bits_as_in_plain_use(self) -> None:
        for name, given in CASES.items():
            if name not in vars(torch.optim):
                continue
            want = self.plain(name, given)
            for starts in ((1,), (1, 3), (1, 2, 3, 4)):
                with self.subTest(optimizer=name, sessions_begin_at=starts):
                    o = TorchOptimizer(name.lower())
                    options = Values(o.options, given)
                    m = self.memory(len(o.slots(options)))
                    for i, lr in enumerate(RATES, 1):
                        if i in starts:
                            session = o.open(options, m)
                        m.grads[:] = gradients(i)
                        session.step(Update(i, lr, 1.0))
                    for t, w in zip(LAYOUT.tensors, want):
                        np.testing.assert_array_equal(t.of(m.params), w.detach().numpy(), err_msg=t.name)
                    padding = np.ones(len(LAYOUT), bool)
                    for t in LAYOUT.tensors:
                        padding[t.offset : t.offset + len(t)] = False
                    for section in m.sections:
                        self.assertFalse(section[padding].any(), "padding is not zero")

    def test_begins_again(self) -> None:
        """Update 1 in a session that has gone on is the beginning of a run."""
        o = TorchOptimizer("NAdam")
        options = Values(o.options, {})
        m = self.memory(len(o.slots(options)))
        session = o.open(options, m)
        results = []
        for _ in range(2):
            m.params[:] = gradients(0)
            for i, lr in enumerate(RATES, 1):
                m.grads[:] = gradients(i)
                session.step(Update(i, lr, 1.0))
            results.append(m.params.copy())
        np.testing.assert_array_equal(results[0], results[1])

    def test_clips(self) -> None:
        o = TorchOptimizer("SGD")
        options = Values(o.options, {"max_grad_norm": "0.5"})
        m = self.memory(0)
        m.grads[:] = gradients(1)
        norm = float(np.linalg.norm(m.grads.astype(np.float64)))
        want = m.params - np.float32(0.1) * (m.grads * np.float32(0.5 / norm))
        o.open(options, m).step(Update(1, 0.1, norm))
        np.testing.assert_allclose(m.params, want, rtol=1e-6)

    def test_refuses(self) -> None:
        for name in ("LBFGS", "SparseAdam", "Optimizer", "nosuchrule"):
            with self.subTest(name=name), self.assertRaises(SystemExit):
                TorchOptimizer(name)
        o = TorchOptimizer("Adam")
        for given in ({"beta1": "2"}, {"eps": "much"}, {"amsgrad": "perhaps"}, {"bta1": "0.9"}, {"foreach": "true"}):
            with self.subTest(given=given), self.assertRaises((ValueError, Unsupported)):
                o.slots(Values(o.options, given))


class Machine(unittest.TestCase):
    def test_profile(self) -> None:
        """Every figure of a profile is a positive number, whatever is measured of it."""
        machine.ELEMENTS, machine.LOGITS, machine.GRADIENTS, machine.REPEATS = 1 << 15, (4, 64), 1 << 10, 1
        p = machine.profile()
        self.assertEqual([x["dimension"] for x in p["products"]], [64, 128, 256, 512, 1024])
        pairs = [p["operator_seconds"], *p["products"], *p["attention"], *p["passes"].values()]
        self.assertTrue(all(x["forward"] > 0 and x["backward"] >= 0 for x in pairs), pairs)
        self.assertTrue(all(x > 0 for x in p["gradients"].values()), p["gradients"])


if __name__ == "__main__":
    sys.exit(not unittest.main(exit=False).result.wasSuccessful())
