# Makes squad2.json and cmrc.json: scores by transcriptions into plain Python of the functions that matter of evaluate-v2.0.py (SQuAD-explorer), of
# cmrc2018_evaluate.py (ymcui/cmrc2018) and of nltk's NLTKWordTokenizer (nltk/tokenize/destructive.py), for questions and answers drawn from a
# few words. `python3 oracle.py`; CPython 3.11.7.
import collections
import json
import random
import re
import string


def normalize_answer(s):
    s = s.lower()
    s = "".join(c for c in s if c not in set(string.punctuation))
    s = re.sub(re.compile(r"\b(a|an|the)\b", re.UNICODE), " ", s)
    return " ".join(s.split())


def get_tokens(s):
    return normalize_answer(s).split() if s else []


def compute_exact(gold, pred):
    return int(normalize_answer(gold) == normalize_answer(pred))


def compute_f1(gold, pred):
    gold, pred = get_tokens(gold), get_tokens(pred)
    same = sum((collections.Counter(gold) & collections.Counter(pred)).values())
    if len(gold) == 0 or len(pred) == 0:
        return int(gold == pred)
    if same == 0:
        return 0
    precision, recall = 1.0 * same / len(pred), 1.0 * same / len(gold)
    return (2 * precision * recall) / (precision + recall)


def squad2(questions, preds, na_probs, thresh):
    has = {q["id"]: bool(q["answers"]) for q in questions}
    exact, f1 = {}, {}
    for q in questions:
        golds = [a for a in q["answers"] if normalize_answer(a)] or [""]
        if q["id"] not in preds:
            continue
        exact[q["id"]] = max(compute_exact(a, preds[q["id"]]) for a in golds)
        f1[q["id"]] = max(compute_f1(a, preds[q["id"]]) for a in golds)

    def apply(scores, probs):
        return {k: float(not has[k]) if probs[k] > thresh else s for k, s in scores.items()}

    def best(scores):
        current = sum(1 for k in has if not has[k])
        best_score, best_thresh = current, 0.0
        for k in sorted(na_probs, key=lambda k: na_probs[k]):
            if k not in scores:
                continue
            current += scores[k] if has[k] else (-1 if preds[k] else 0)
            if current > best_score:
                best_score, best_thresh = current, na_probs[k]
        return 100.0 * best_score / len(scores), best_thresh

    probs = na_probs if na_probs is not None else {k: 0.0 for k in preds}
    e, f = apply(exact, probs), apply(f1, probs)
    out = {"exact": 100.0 * sum(e.values()) / len(e), "f1": 100.0 * sum(f.values()) / len(f), "total": len(e)}
    for name, keys in (("HasAns", [k for k in e if has[k]]), ("NoAns", [k for k in e if not has[k]])):
        if keys:
            out[name + "_exact"] = 100.0 * sum(e[k] for k in keys) / len(keys)
            out[name + "_f1"] = 100.0 * sum(f[k] for k in keys) / len(keys)
            out[name + "_total"] = len(keys)
    if na_probs is not None:
        out["best_exact"], out["best_exact_thresh"] = best(exact)
        out["best_f1"], out["best_f1_thresh"] = best(f1)
    return out


STARTING_QUOTES = [
    (re.compile("([«“‘„]|[`]+)", re.U), r" \1 "),
    (re.compile(r"^\""), r"``"),
    (re.compile(r"(``)"), r" \1 "),
    (re.compile(r"([ \(\[{<])(\"|\'{2})"), r"\1 `` "),
    (re.compile(r"(?i)(\')(?!re|ve|ll|m|t|s|d|n)(\w)\b", re.U), r"\1 \2"),
]
PUNCTUATION = [
    (re.compile(r'([^\.])(\.)([\]\)}>"\'' "»”’ " r"]*)\s*$", re.U), r"\1 \2 \3 "),
    (re.compile(r"([:,])([^\d])"), r" \1 \2"),
    (re.compile(r"([:,])$"), r" \1 "),
    (re.compile(r"\.{2,}", re.U), r" \g<0> "),
    (re.compile(r"[;@#$%&]"), r" \g<0> "),
    (re.compile(r'([^\.])(\.)([\]\)}>"\']*)\s*$'), r"\1 \2\3 "),
    (re.compile(r"[?!]"), r" \g<0> "),
    (re.compile(r"([^'])' "), r"\1 ' "),
    (re.compile(r"[*]", re.U), r" \g<0> "),
]
PARENS_BRACKETS = (re.compile(r"[\]\[\(\)\{\}\<\>]"), r" \g<0> ")
DOUBLE_DASHES = (re.compile(r"--"), r" -- ")
ENDING_QUOTES = [
    (re.compile("([»”’])", re.U), r" \1 "),
    (re.compile(r"''"), " '' "),
    (re.compile(r'"'), " '' "),
    (re.compile(r"([^' ])('[sS]|'[mM]|'[dD]|') "), r"\1 \2 "),
    (re.compile(r"([^' ])('ll|'LL|'re|'RE|'ve|'VE|n't|N'T) "), r"\1 \2 "),
]
CONTRACTIONS2 = [r"(?i)\b(can)(?#X)(not)\b", r"(?i)\b(d)(?#X)('ye)\b", r"(?i)\b(gim)(?#X)(me)\b", r"(?i)\b(gon)(?#X)(na)\b", r"(?i)\b(got)(?#X)(ta)\b",
                 r"(?i)\b(lem)(?#X)(me)\b", r"(?i)\b(more)(?#X)('n)\b", r"(?i)\b(wan)(?#X)(na)(?=\s)"]
CONTRACTIONS3 = [r"(?i) ('t)(?#X)(is)\b", r"(?i) ('t)(?#X)(was)\b"]


def word_tokenize(text):
    for pattern, by in STARTING_QUOTES + PUNCTUATION + [PARENS_BRACKETS, DOUBLE_DASHES]:
        text = pattern.sub(by, text)
    text = " " + text + " "
    for pattern, by in ENDING_QUOTES:
        text = pattern.sub(by, text)
    for pattern in CONTRACTIONS2 + CONTRACTIONS3:
        text = re.sub(pattern, r" \1 \2 ", text)
    return text.split()


SP_CHAR = ['-', ':', '_', '*', '^', '/', '\\', '~', '`', '+', '=', '，', '。', '：', '？', '！', '“', '”', '；', '’', '《', '》', '……', '·', '、', '「', '」',
           '（', '）', '－', '～', '『', '』']


def mixed_segmentation(s):
    out, temp = [], ""
    for c in str(s).lower().strip():
        if c in SP_CHAR:
            continue
        if re.search(r"[\u4e00-\u9fa5]", c):
            if temp != "":
                out.extend(word_tokenize(temp))
                temp = ""
            out.append(c)
        else:
            temp += c
    if temp != "":
        out.extend(word_tokenize(temp))
    return out


def find_lcs(s1, s2):
    m = [[0] * (len(s2) + 1) for _ in range(len(s1) + 1)]
    most = 0
    for i in range(len(s1)):
        for j in range(len(s2)):
            if s1[i] == s2[j]:
                m[i + 1][j + 1] = m[i][j] + 1
                most = max(most, m[i + 1][j + 1])
    return most


def cmrc(questions, preds):
    f1 = em = 0
    for q in questions:
        if q["id"] not in preds:
            continue
        scores = []
        for a in q["answers"]:
            gold, said = mixed_segmentation(a), mixed_segmentation(preds[q["id"]])
            n = find_lcs(gold, said)
            scores.append(0 if n == 0 else 2 * (n / len(said)) * (n / len(gold)) / (n / len(said) + n / len(gold)))
        f1 += max(scores)
        plain = lambda s: "".join(c for c in s.lower().strip() if c not in SP_CHAR)
        em += int(any(plain(a) == plain(preds[q["id"]]) for a in q["answers"]))
    return {"F1": 100.0 * f1 / len(questions), "EM": 100.0 * em / len(questions)}


def draw(rng, words, most):
    return " ".join(rng.choice(words) for _ in range(rng.randint(0, most)))


def main():
    rng = random.Random(7)
    cases = []
    for case in range(8):
        words = ["the", "a", "x", "y", "z.", "An", "—", "U.S."]
        questions = [{"id": str(i), "answers": [] if rng.random() < 0.4 else [draw(rng, words, 4) for _ in range(rng.randint(1, 3))]} for i in range(30)]
        preds = {q["id"]: rng.choice([""] + q["answers"] + [draw(rng, words, 4)]) for q in questions if rng.random() < 0.95}
        # Few values, so that many are equal.
        na = {k: rng.randint(-4, 4) / 2 for k in preds} if case % 2 else None
        thresh = 1.0 if case < 4 else 0.25
        cases.append({"questions": questions, "predictions": preds, "odds": list(na.items()) if na else None, "threshold": thresh, "want": squad2(questions, preds, na, thresh)})
    json.dump(cases, open("squad2.json", "w"), ensure_ascii=False)

    cases = []
    for case in range(12):
        words = ["东京", "，", "在1964年", "《红楼梦》", "NBA", "U.S.", "can't", "\"ok\"", "3.5%", "(a)", "'n", "it's", "cannot", "Å", "……", "-", "2,000", "'x y", "wanna go", "a..b", "tom's."]
        questions = []
        for i in range(40):
            answers = ["".join(rng.choice(words) + rng.choice(["", " "]) for _ in range(rng.randint(1, 4))) for _ in range(rng.randint(1, 3))]
            questions.append({"id": str(i), "answers": answers})
        preds = {q["id"]: rng.choice([q["answers"][0], q["answers"][-1][1:], "".join(rng.choice(words) for _ in range(4))]) for q in questions if rng.random() < 0.97}
        cases.append({"questions": questions, "predictions": preds, "want": cmrc(questions, preds)})
    texts = ["".join(rng.choice(words + [" ", ". ", "' "]) for _ in range(6)).lower() for _ in range(200)]
    json.dump({"cases": cases, "words": [[t, word_tokenize(t)] for t in texts]}, open("cmrc.json", "w"), ensure_ascii=False)


main()
