"""Writes entities.json: tags of sentences, and what seqeval says of them in its default mode."""

import json
import random
import warnings

from seqeval.metrics import accuracy_score, classification_report

warnings.simplefilter("ignore")
draw = random.Random(1)
TAGS = {
    "BIO": ["O", "O", "O", "B-PER", "I-PER", "B-LOC", "I-LOC"],
    "BIOES": ["O", "O", "O", "B-PER", "I-PER", "E-PER", "S-PER", "B-LOC", "I-LOC", "E-LOC", "S-LOC"],
    "odd": ["O", "B", "I", "E", "S", ".", "M-PER", "L-PER", "B-a-b", "I-a-b", "I-b", "BPER", "O-PER", "B-", "U"],
}

cases = []
for name in TAGS:
    for _ in range(12):
        gold = [[draw.choice(TAGS[name]) for _ in range(draw.randint(1, 9))] for _ in range(draw.randint(1, 4))]
        said = [[t if draw.random() < 0.7 else draw.choice(TAGS[name]) for t in tags] for tags in gold]
        report = classification_report(gold, said, output_dict=True)
        report["accuracy"] = accuracy_score(gold, said)
        cases.append({
            "labels": [" ".join(t) for t in gold], "predictions": [" ".join(t) for t in said],
            "want": {k: v if k == "accuracy" else {m: float(x) for m, x in v.items()} for k, v in report.items()
                     if k not in ("macro avg", "weighted avg")},
        })  # fmt: skip
with open("entities.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
