"""Writes the files beside it from the full reference material: excerpt.py FOLDER. See README.md."""

import collections
import json
import pathlib
import re
import shutil
import string
import struct
import sys

SOURCE = pathlib.Path(sys.argv[1])
TARGET = pathlib.Path(__file__).parent
SCORED_QUESTIONS = 120
CHECKPOINT = "data/weights/keras-bert-tf-ckpt"
LINES = 80  # one of so many lines of the tokenizer's corpus


def place(name):
    path = TARGET / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def subset(name, keep, part=lambda shape, values: (shape, values)):
    """Writes a part of the tensors of a safetensors file whose names pass keep. Values are copied, not converted."""
    data = (SOURCE / name).read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + size])
    body, out, at = data[8 + size :], {}, 0
    chunks = []
    for tensor, entry in header.items():
        if tensor == "__metadata__":
            out[tensor] = entry
        elif keep(tensor):
            begin, end = entry["data_offsets"]
            shape, values = part(entry["shape"], body[begin:end])
            chunks.append(values)
            out[tensor] = entry | {"shape": shape, "data_offsets": [at, at + len(values)]}
            at += len(values)
    text = json.dumps(out, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    place(name).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(chunks))


def bert(gradients, outputs):
    """A choice of gradients and outputs; parameters, inputs and losses stay."""
    def keep(tensor):
        kind, rest = tensor.split(".", 1)
        if kind == "out":
            return rest in outputs
        return kind != "grad" or gradients(rest)

    return keep


def not_layer_1_matrix(parameter):
    # Layer 0 has the same matrices, and its gradients pass through those of layer 1.
    return "layer.1." not in parameter or "LayerNorm" in parameter or parameter.endswith("bias")


def not_encoder_matrix(parameter):
    return "layer." not in parameter or "LayerNorm" in parameter or parameter.endswith("bias")


def first_steps(tensor):
    """Three steps of the six; the learning rates say how many there are, and are cut below."""
    return not re.search(r"\.[345]\.", tensor) and tensor != "lr"


def cut_learning_rates(name, steps):
    """Appends lr with its first values to a file that was written without it."""
    data = (SOURCE / name).read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    begin, _ = json.loads(data[8 : 8 + size])["lr"]["data_offsets"]
    rates = data[8 + size + begin :][: 8 * steps]
    data = place(name).read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    header["lr"] = {"dtype": "F64", "shape": [steps], "data_offsets": [len(body), len(body) + len(rates)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    place(name).write_bytes(struct.pack("<Q", len(text)) + text + body + rates)


def some_casts(shape, values):
    """One of 23 elements of four bytes."""
    chosen = [values[4 * i : 4 * i + 4] for i in range(3, shape[0], 23)]
    return [len(chosen)], b"".join(chosen)


def some_blocks(shape, values):
    """Two blocks of 32 elements of four bytes in one of 21 rows."""
    rows = range(0, shape[0] - 2, 21)
    return [len(rows), 64], b"".join(values[4 * r * shape[1] :][: 4 * 64] for r in rows)


def mx(tensor):
    """Formats whose scales depend on blocks of 32 elements alone."""
    return tensor == "x" or tensor.startswith("x.mx")


def normal(answer):
    """The normal form of an answer in SQuAD's evaluate-v1.1.py."""
    answer = "".join(c for c in answer.lower() if c not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", answer).split())


def f1(prediction, truth):
    prediction, truth = normal(prediction).split(), normal(truth).split()
    same = sum((collections.Counter(prediction) & collections.Counter(truth)).values())
    if same == 0:
        return 0
    precision, recall = same / len(prediction), same / len(truth)
    return 2 * precision * recall / (precision + recall)


def dump(name, value):
    place(name).write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


def squad():
    """Evenly spread questions without their paragraphs: ids, predictions, and the scores of these alone."""
    full = json.loads((SOURCE / "data/squad/dev-v1.1.json").read_text(encoding="utf-8"))
    questions = [qa for a in full["data"] for p in a["paragraphs"] for qa in p["qas"]]
    chosen = range(0, len(questions), len(questions) // SCORED_QUESTIONS)
    qas = [questions[i] for i in chosen]
    dump("data/squad/dev-v1.1.json", {"version": "1.1", "data": [{"title": "excerpt", "paragraphs": [{"context": "", "qas": qas}]}]})
    ids = json.loads((SOURCE / "golden/tokenization/squad-dev-questions_ids.json").read_text())
    dump("golden/tokenization/squad-dev-questions_ids.json", [ids[i] for i in chosen])
    scores = {}
    for name in ("bert_ensemble.json", "logistic_regression.json"):
        all_predictions = json.loads((SOURCE / "golden/squad" / name).read_text(encoding="utf-8"))
        predictions = {qa["id"]: all_predictions[qa["id"]] for qa in qas}
        dump("golden/squad/" + name, predictions)
        exact = sum(max(normal(predictions[qa["id"]]) == normal(a["text"]) for a in qa["answers"]) for qa in qas)
        overlap = sum(max(f1(predictions[qa["id"]], a["text"]) for a in qa["answers"]) for qa in qas)
        scores[name] = {"exact_match": 100 * exact / len(qas), "f1": 100 * overlap / len(qas)}
    dump("golden/squad/expected.json", scores)


def main():
    subset("golden/bert/pretraining_tanh.safetensors", bert(not_layer_1_matrix, {"mlm_logits", "nsp_logits"}))
    subset("golden/bert/question_answering.safetensors", bert(not_layer_1_matrix, {"start_logits", "end_logits"}))
    subset("golden/bert/classification.safetensors", bert(not_encoder_matrix, {"logits", "pooler_output"}))
    subset("golden/optimizers.safetensors", first_steps)
    cut_learning_rates("golden/optimizers.safetensors", 3)
    subset("golden/formats/casts.safetensors", lambda tensor: True, some_casts)
    subset("golden/formats/blocks.safetensors", mx, some_blocks)
    for name in ("golden/pretraining/sample_text_wwm_seed7.json", "data/corpus/sample_text.txt", "data/vocab/bert-base-uncased-vocab.txt"):
        shutil.copyfile(SOURCE / name, place(name))
    for file in sorted((SOURCE / CHECKPOINT).iterdir()):
        shutil.copyfile(file, place(CHECKPOINT + "/" + file.name))
    lines = (SOURCE / "golden/tokenization/regression_uncased.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    place("golden/tokenization/regression_uncased.txt").write_text("".join(lines[::LINES]), encoding="utf-8")
    squad()


if __name__ == "__main__":
    main()
