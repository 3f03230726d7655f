# Makes data.json, vocab.txt and golden.json: features and answers by a transcription into plain Python of the functions that matter of
# google-research/bert, run_squad.py and tokenization.py (Apache License 2.0), without TensorFlow. `python3 oracle.py`; CPython 3.11.7. The files with
# -v2 in their names are with version_2_with_negative, and null_odds-v2.json is among them.
import collections
import json
import math
import unicodedata

MAX_SEQ, STRIDE, MAX_QUERY, N_BEST, MAX_ANSWER = 48, 12, 10, 20, 8
THRESHOLD = -25.75  # in the midst of the odds, and equal to one of them

CONTEXTS = [
    "The  city of Zürich\tlies on Lake Zürich (Zürichsee). It was founded in 15 BC (as Turicum), said O’Neil's \"guide\" \u2014 pp. 1\u20132; "
    "population\u202f434,008 in 2020. Its motto is unknown; its mayor, Ms. Mauch-Steve, isn't. Steve Smith's brother lives there, in Steve Smith's house.",
    "東京 (Tokyo) is the capital of Japan, 日本. Ça va? ﬁne\u00a0day and e\u0301clair. $3.2 billion was spent 1895-1943. Straße \U0001f600 ends here",
    "short.",
    "   ",
]
QUESTIONS = [
    (0, "When was it founded, and by whom and why and where and how?", "15 BC"),
    (0, "Who lives there?", "Steve Smith's brother"),
    (0, "Where is the city?", "Lake Zürich"),
    (0, "How many people?", "434,008"),
    (0, "What?", "Turicum"),
    (0, "Which lake?", "Zürichsee"),
    (0, "Which guide?", "guide"),
    (1, "What is the capital of Japan?", "東京"),
    (1, "How much?", "$3.2 billion"),
    (1, "When from?", "1895"),
    (1, "Which day?", "ﬁne"),
    (1, "What ends?", "\U0001f600"),
    (2, "What is it?", "short"),
]


class Tokenizer:
    def __init__(self, vocab):
        self.vocab = vocab

    def basic(self, text):
        out = []
        for c in text:
            cp = ord(c)
            if cp in (0, 0xFFFD) or (c not in "\t\n\r" and unicodedata.category(c) in ("Cc", "Cf")):
                continue
            out.append(" " if c in " \t\n\r" or unicodedata.category(c) == "Zs" else c)
        text = "".join(" %s " % c if self.chinese(ord(c)) else c for c in out)
        tokens = []
        for token in text.strip().split():
            token = unicodedata.normalize("NFD", token.lower())
            token = "".join(c for c in token if unicodedata.category(c) != "Mn")
            word = []
            for c in token:
                if self.punctuation(c):
                    tokens.extend(["".join(word), c])
                    word = []
                else:
                    word.append(c)
            tokens.append("".join(word))
        return " ".join(tokens).split()

    @staticmethod
    def chinese(cp):
        return any(a <= cp <= b for a, b in ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0xF900, 0xFAFF)))

    @staticmethod
    def punctuation(c):
        cp = ord(c)
        return 33 <= cp <= 47 or 58 <= cp <= 64 or 91 <= cp <= 96 or 123 <= cp <= 126 or unicodedata.category(c).startswith("P")

    def tokenize(self, text):
        output = []
        for token in self.basic(text):
            start, sub = 0, []
            while start < len(token):
                end = len(token)
                while start < end:
                    piece = token[start:end] if start == 0 else "##" + token[start:end]
                    if piece in self.vocab:
                        break
                    end -= 1
                if start == end:
                    sub = ["[UNK]"]
                    break
                sub.append(piece)
                start = end
            output.extend(sub)
        return output


def improve(doc_tokens, start, end, tokenizer, answer):
    tok_answer = " ".join(tokenizer.tokenize(answer))
    for new_start in range(start, end + 1):
        for new_end in range(end, new_start - 1, -1):
            if " ".join(doc_tokens[new_start:new_end + 1]) == tok_answer:
                return new_start, new_end
    return start, end


def max_context(spans, current, position):
    best_score, best = None, None
    for i, (start, length) in enumerate(spans):
        end = start + length - 1
        if position < start or position > end:
            continue
        score = min(position - start, end - position) + 0.01 * length
        if best_score is None or score > best_score:
            best_score, best = score, i
    return current == best


def final_text(pred, orig, tokenizer):
    def strip(text):
        chars, where = [], {}
        for i, c in enumerate(text):
            if c == " ":
                continue
            where[len(chars)] = i
            chars.append(c)
        return "".join(chars), where

    tok = " ".join(tokenizer.basic(orig))
    start = tok.find(pred)
    if start == -1:
        return orig
    end = start + len(pred) - 1
    orig_ns, orig_map = strip(orig)
    tok_ns, tok_map = strip(tok)
    if len(orig_ns) != len(tok_ns):
        return orig
    inverse = {t: i for i, t in tok_map.items()}
    first = orig_map.get(inverse[start]) if start in inverse else None
    if first is None:
        return orig
    last = orig_map.get(inverse[end]) if end in inverse else None
    if last is None:
        return orig
    return orig[first:last + 1]


def logit(feature, position, which):
    # Eighths between -8 and 8, with many ties; exact in every format.
    return ((feature * 7919 + position * 104729 + which * 1299709) % 129 - 64) / 8


def main(v2):
    suffix = "-v2" if v2 else ""
    corpus = " ".join(CONTEXTS + [q for _, q, _ in QUESTIONS])
    plain = Tokenizer({})
    letters = sorted({c for w in plain.basic(corpus) for c in w if ord(c) < 0x2000 and c not in "ß"} | set("東京"))
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + letters + ["##" + c for c in letters if c.isalnum()]
    tokens += ["the", "steve", "smith", "##ich", "zur", "##ed", "found", "what", "18", "##95", "lives", "in", "is"]
    vocab = {t: i for i, t in enumerate(tokens)}
    tokenizer = Tokenizer(vocab)
    if not v2:
        with open("vocab.txt", "w", encoding="utf-8") as f:
            f.write("\n".join(tokens) + "\n")

    paragraphs = [{"context": c, "qas": []} for c in CONTEXTS]
    for n, (c, question, answer) in enumerate(QUESTIONS):
        start = CONTEXTS[c].find(answer)
        assert start >= 0
        paragraphs[c]["qas"].append({"answers": [{"answer_start": start, "text": answer}], "question": question, "id": "q%d" % n})
    paragraphs[0]["qas"].append({"answers": [{"answer_start": 5, "text": "Turicum"}], "question": "Skipped?", "id": "skipped"})
    if v2:
        for paragraph in paragraphs:
            for qa in paragraph["qas"]:
                qa["is_impossible"] = False
        paragraphs[0]["qas"].append({"answers": [], "plausible_answers": [{"answer_start": 12, "text": "Zürich"}], "question": "What is not?",
                                     "id": "impossible", "is_impossible": True})
    with open("data%s.json" % suffix, "w", encoding="utf-8") as f:
        json.dump({"data": [{"title": "Odd", "paragraphs": paragraphs}], "version": "v2.0" if v2 else "1.1"}, f, ensure_ascii=False, indent=1)
        f.write("\n")

    features, predictions, nbests, odds, skipped = [], collections.OrderedDict(), collections.OrderedDict(), collections.OrderedDict(), []
    for paragraph in paragraphs:
        doc, char_to_word, prev = [], [], True
        for c in paragraph["context"]:
            if c in " \t\r\n" or ord(c) == 0x202F:
                prev = True
            else:
                if prev:
                    doc.append(c)
                else:
                    doc[-1] += c
                prev = False
            char_to_word.append(len(doc) - 1)
        for qa in paragraph["qas"]:
            impossible = qa.get("is_impossible", False)
            if not impossible:
                answer = qa["answers"][0]
                offset, text = answer["answer_start"], answer["text"]
                start_word, end_word = char_to_word[offset], char_to_word[offset + len(text) - 1]
                if " ".join(doc[start_word:end_word + 1]).find(" ".join(text.split())) == -1:
                    skipped.append(qa["id"])
                    continue
            query = tokenizer.tokenize(qa["question"])[:MAX_QUERY]
            tok_to_orig, orig_to_tok, doc_tokens = [], [], []
            for i, word in enumerate(doc):
                orig_to_tok.append(len(doc_tokens))
                for sub in tokenizer.tokenize(word):
                    tok_to_orig.append(i)
                    doc_tokens.append(sub)
            tok_start = tok_end = -1
            if not impossible:
                tok_start = orig_to_tok[start_word]
                tok_end = orig_to_tok[end_word + 1] - 1 if end_word < len(doc) - 1 else len(doc_tokens) - 1
                tok_start, tok_end = improve(doc_tokens, tok_start, tok_end, tokenizer, text)
            spans, at, room = [], 0, MAX_SEQ - len(query) - 3
            while at < len(doc_tokens):
                length = min(len(doc_tokens) - at, room)
                spans.append((at, length))
                if at + length == len(doc_tokens):
                    break
                at += min(length, STRIDE)
            prelim, own = [], []
            score_null, null = 1000000, (0, 0)
            for s, (at, length) in enumerate(spans):
                tokens = ["[CLS]"] + query + ["[SEP]"]
                segments = [0] * len(tokens)
                orig_map, is_max = {}, {}
                for i in range(length):
                    orig_map[len(tokens)] = tok_to_orig[at + i]
                    is_max[len(tokens)] = max_context(spans, s, at + i)
                    tokens.append(doc_tokens[at + i])
                tokens.append("[SEP]")
                segments += [1] * (length + 1)
                start = end = 0
                if tok_start >= at and tok_end <= at + length - 1:
                    start, end = tok_start - at + len(query) + 2, tok_end - at + len(query) + 2
                index = len(features)
                features.append({"id": qa["id"], "input_ids": [vocab[t] for t in tokens], "segment_ids": segments, "start": start, "end": end})
                own.append((tokens, orig_map))
                start_logits = [logit(index, p, 0) for p in range(MAX_SEQ)]
                end_logits = [logit(index, p, 1) for p in range(MAX_SEQ)]
                if v2 and start_logits[0] + end_logits[0] < score_null:
                    score_null, null = start_logits[0] + end_logits[0], (start_logits[0], end_logits[0])
                best = lambda l: [i for i, _ in sorted(enumerate(l), key=lambda x: x[1], reverse=True)[:N_BEST]]
                for i in best(start_logits):
                    for j in best(end_logits):
                        if i >= len(tokens) or j >= len(tokens) or i not in orig_map or j not in orig_map or not is_max.get(i, False):
                            continue
                        if j < i or j - i + 1 > MAX_ANSWER:
                            continue
                        prelim.append((s, i, j, start_logits[i], end_logits[j]))
            if v2:
                prelim.append((0, 0, 0, null[0], null[1]))
            prelim.sort(key=lambda x: x[3] + x[4], reverse=True)
            seen, nbest = set(), []
            for s, i, j, a, b in prelim:
                if len(nbest) >= N_BEST:
                    break
                if i == 0:
                    seen.add("")
                    nbest.append(("", a, b))
                    continue
                tokens, orig_map = own[s]
                tok_text = " ".join(tokens[i:j + 1]).replace(" ##", "").replace("##", "").strip()
                tok_text = " ".join(tok_text.split())
                final = final_text(tok_text, " ".join(doc[orig_map[i]:orig_map[j] + 1]), tokenizer)
                if final in seen:
                    continue
                seen.add(final)
                nbest.append((final, a, b))
            if v2 and "" not in seen:
                nbest.append(("", null[0], null[1]))
            if not nbest:
                nbest.append(("empty", 0.0, 0.0))
            top = max(a + b for _, a, b in nbest)
            exps = [math.exp(a + b - top) for _, a, b in nbest]
            nbests[qa["id"]] = [
                collections.OrderedDict([("text", t), ("probability", x / sum(exps)), ("start_logit", a), ("end_logit", b)])
                for (t, a, b), x in zip(nbest, exps)]
            predictions[qa["id"]] = nbest[0][0]
            if v2:
                text, a, b = next(c for c in nbest if c[0])
                odds[qa["id"]] = score_null - a - b
                predictions[qa["id"]] = "" if odds[qa["id"]] > THRESHOLD else text
    with open("golden%s.json" % suffix, "w", encoding="utf-8") as f:
        json.dump({
            "settings": {"max_seq_length": MAX_SEQ, "doc_stride": STRIDE, "max_query_length": MAX_QUERY, "n_best_size": N_BEST,
                         "max_answer_length": MAX_ANSWER},
            "skipped": skipped, "features": features}, f)
        f.write("\n")
    with open("predictions%s.json" % suffix, "w") as f:
        f.write(json.dumps(predictions, indent=4) + "\n")
    with open("nbest_predictions%s.json" % suffix, "w") as f:
        f.write(json.dumps(nbests, indent=4) + "\n")
    if v2:
        with open("null_odds-v2.json", "w") as f:
            f.write(json.dumps(odds, indent=4) + "\n")


for version in (False, True):
    main(version)
