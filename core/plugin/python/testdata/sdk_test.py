"""Tests of the SDK without a host.

    PYTHONPATH=core/plugin/python /usr/bin/python3 core/plugin/python/testdata/sdk_test.py
"""

import json
import os
import ssl
import sys
import tempfile
import unittest

import numpy as np

from harness_plugin import Batch, Kind, Layout, Model, Option, Program, Tensor, Unsupported, Values, _certificate, _protocol
from harness_plugin.bert import receive
from harness_plugin.errors import Cancelled
from harness_plugin.memory import attach
from harness_plugin.optimizer import norm

MODEL = Model(
    vocab_size=61, hidden_size=24, num_hidden_layers=2, num_attention_heads=2, intermediate_size=40, hidden_act="gelu",
    hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1, max_position_embeddings=20, type_vocab_size=2, initializer_range=0.02, layer_norm_eps=1e-12,
    attention_mask_value=-10000.0,
)  # fmt: skip


def program(**changes: object) -> Program:
    p = dict(model=MODEL, task="pretraining", num_labels=0, precision="fp32", options=Values([], {}), seed=1, length=8, max_predictions=2,
             micro_batch=2, accumulation=1, replicas=1)  # fmt: skip
    return Program(**{**p, **changes})


def messages(sizes: list[int], **changes: object) -> list:
    """The messages of a batch, one for each size."""
    sample, out = 0, []
    for i, n in enumerate(sizes):
        b = _protocol.Batch(
            size=n, length=8, sample=sample, more=i + 1 < len(sizes),
            input_ids=range(8 * n), token_type_ids=[1] * 8 * n, attention_mask=[1] * 8 * n, predictions=2,
            masked_lm_positions=[3, 7] * n, masked_lm_ids=[5, 60] * n, masked_lm_weights=[1, 0.5] * n, next_sentence_labels=[1] * n,
        )  # fmt: skip
        for name, value in changes.items():
            b.ClearField(name)
            getattr(b, name).extend(value) if isinstance(value, list) else setattr(b, name, value)
        out.append(_protocol.BackendStepRequest(batch=b))
        sample += n
    return out


class Layouts(unittest.TestCase):
    def test_offsets(self) -> None:
        """The example of docs/plugin-protocol.md."""
        l = Layout([Tensor("a", (3, 5), Kind.WEIGHT), Tensor("b", (16,), Kind.BIAS), Tensor("c", (1,), Kind.BIAS)])
        self.assertEqual([t.offset for t in l.tensors], [0, 16, 32])
        self.assertEqual(len(l), 48)
        section = np.ones(48, np.float32)
        l.clear_padding(section)
        self.assertEqual(section.sum(), 15 + 16 + 1)
        l.tensors[0].of(section)[2, 4] = 7
        self.assertEqual(section[14], 7)

    def test_refuses(self) -> None:
        named = [("", (1,))], [("a", (1,))] * 2, [("a", (0,))], [("a", (1 << 20, 1 << 20))]
        for tensors in named:
            with self.assertRaises(ValueError):
                Layout(Tensor(name, shape, Kind.BIAS) for name, shape in tensors)

    def test_arena(self) -> None:
        """Two mappings of a file are the same memory."""
        l = Layout([Tensor("a", (100,), Kind.WEIGHT)])
        with tempfile.TemporaryFile() as f:
            f.truncate(3 << 16)
            one, two = (attach(l, [0, 1 << 16], 2, f.fileno()) for _ in range(2))
            one.grads[99] = 3
            self.assertEqual(two.grads[99], 3)
            self.assertEqual(os.pread(f.fileno(), 4, (1 << 16) + 4 * 99), np.float32(3).tobytes())
            for offsets in ([0], [0, 3 << 16], [0, 7], [0, 1 << 63]):
                with self.assertRaises(ValueError):
                    attach(l, offsets, 2, f.fileno())
        with self.assertRaisesRegex(ValueError, "HARNESS_ARENA_FD"):
            attach(l, [0, 1 << 16], 2, None)
        self.assertFalse(attach(l, [], 3, None).slots[0].any())


class Options(unittest.TestCase):
    known = [Option("beta1", "0.9", ""), Option("steps", "3", ""), Option("nesterov", "false", ""), Option("kind", "mean", "")]

    def test_reads(self) -> None:
        v = Values(self.known, {"steps": "5", "nesterov": "true"})
        read = v.number("beta1", 0, 1), v.integer("steps", 1, 9), v.boolean("nesterov"), v.one_of("kind", "mean", "sum")
        self.assertEqual(read, (0.9, 5, True, "mean"))

    def test_refuses(self) -> None:
        with self.assertRaisesRegex(ValueError, "did you mean beta1?"):
            Values(self.known, {"bata1": "1"})
        v = Values(self.known, {"beta1": "nan", "steps": "2.5", "nesterov": "maybe", "kind": "men"})
        for read in (
            lambda: v.number("beta1", 0, 1), lambda: v.integer("steps", 1, 9), lambda: v.boolean("nesterov"),
            lambda: v.one_of("kind", "mean", "sum"),
        ):  # fmt: skip
            with self.assertRaisesRegex(ValueError, 'option .* is ".*", want '):
                read()


class Programs(unittest.TestCase):
    @unittest.skipUnless("HARNESS_MODELS" in os.environ, "the Go test that runs this one knows the tables of core/bert")
    def test_model(self) -> None:
        """Parameters and outputs of every task are those of core/bert."""
        for m in json.loads(os.environ["HARNESS_MODELS"]):
            with self.subTest(m["Task"]):
                p = program(model=Model(**m["Model"]), task=m["Task"], num_labels=m["Labels"])
                got = [{"Name": t.name, "Shape": list(t.shape), "Kind": int(t.kind), "Offset": t.offset} for t in p.parameters().tensors]
                self.assertEqual(got, m["Parameters"])
                batch = Batch(size=6, length=8, sample=0, predictions=2, arrays={})
                self.assertEqual(list(p.outputs(batch)), m["Outputs"])

    def test_token_labels(self) -> None:
        p = program(task="token_classification", num_labels=3)
        labels = [-100, 2, -100, 0, 1, 2, 2, -100] * 4
        whole, parts = (
            list(receive(p, True, iter(messages(s, labels=labels[: 8 * s[0]])), lambda: True))[0] for s in ([4], [2, 2])
        )
        self.assertEqual(whole.labels.shape, (4, 8))
        np.testing.assert_array_equal(whole.labels, parts.labels)
        for wrong in ([3] * 8, [-1] * 8, [0] * 7):
            with self.subTest(wrong), self.assertRaises(ValueError):
                list(receive(p, True, iter(messages([1], labels=wrong)), lambda: True))
        with self.assertRaisesRegex(ValueError, "attention_mask is 0"):
            list(receive(p, True, iter(messages([1], labels=[0] * 8, attention_mask=[1] * 7 + [0])), lambda: True))

    def test_receives(self) -> None:
        whole, parts = (list(receive(program(), True, iter(messages(s)), lambda: True)) for s in ([4], [1, 3]))
        self.assertEqual(whole[0].size, 4)
        self.assertEqual(whole[0].masked_lm_weights.shape, (4, 2))
        self.assertEqual(parts[0].size, 4)
        np.testing.assert_array_equal(parts[0].masked_lm_ids, whole[0].masked_lm_ids)
        self.assertEqual(whole[0].slice(1, 3).sample, 1)

    def test_refuses(self) -> None:
        for what, changes in {
            "word": {"input_ids": [61] * 16}, "negative type": {"token_type_ids": [-1] * 16}, "too few": {"attention_mask": [1]},
            "position": {"masked_lm_positions": [8] * 4}, "weight": {"masked_lm_weights": [float("nan")] * 4},
            "labels": {"next_sentence_labels": []}, "predictions": {"predictions": 9},
            "length": {"length": 21}, "size": {"size": 0}, "huge": {"size": 1 << 40}, "negative": {"length": -8},
        }.items():  # fmt: skip
            with self.subTest(what), self.assertRaises(ValueError):
                list(receive(program(), True, iter(messages([2], **changes)), lambda: True))
        with self.assertRaisesRegex(ValueError, "within a batch"):
            list(receive(program(), True, iter(messages([2, 2])[:1]), lambda: True))
        with self.assertRaises(Cancelled):
            list(receive(program(), True, iter(messages([2])), lambda: False))
        for changes in (
            {"length": 21}, {"micro_batch": 0}, {"max_predictions": 9}, {"task": "juggling"},
            {"task": "multiple_choice", "num_labels": 1}, {"task": "token_classification", "num_labels": 1},
        ):  # fmt: skip
            with self.subTest(changes), self.assertRaises(ValueError):
                program(**changes).validate()
        with self.assertRaises(Unsupported):
            program(sequences_per_pack=3).validate()

    def test_arrays_of_a_batch(self) -> None:
        """Every array of the message is one of Batch."""
        fields = {f.name for f in _protocol.Batch.DESCRIPTOR.fields}
        batch = next(receive(program(), True, iter(messages([1])), lambda: True))
        self.assertLessEqual(set(batch.arrays), fields)
        self.assertTrue(all(isinstance(getattr(Batch, name), property) for name in batch.arrays))


class Others(unittest.TestCase):
    def test_norm(self) -> None:
        x = np.random.default_rng(1).standard_normal(100_003).astype(np.float32)
        self.assertAlmostEqual(norm(x) / float(np.linalg.norm(x.astype(np.float64))), 1, delta=1e-6)

    def test_certificate(self) -> None:
        key, cert, der = _certificate.make()
        self.assertEqual(ssl.DER_cert_to_PEM_cert(der).strip(), cert.decode().strip())
        with tempfile.NamedTemporaryFile() as f:
            f.write(cert + key)
            f.flush()
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(f.name)  # raises unless they belong together


if __name__ == "__main__":
    sys.exit(not unittest.main(exit=False).result.wasSuccessful())
