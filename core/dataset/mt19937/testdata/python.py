# Prints known answers of Python's random module; `python3 python.py > python.json`. The committed file came from CPython 3.11.7.
import json
import random

cases = []
for seed in (0, 1, -1, 7, 12345, 2**31, 2**32 - 1, 2**32, 2**40 + 3, -(2**63), 2**63 - 1):
    r = random.Random(seed)
    case = {"seed": seed}
    case["uint32"] = [r.getrandbits(32) for _ in range(5)]
    case["random"] = [r.random() for _ in range(5)]
    case["bits"] = [[k, str(r.getrandbits(k))] for k in (1, 2, 5, 31, 32, 33, 40, 63, 64, 0)]
    case["below"] = [[n, r.randrange(n)] for n in (1, 2, 3, 10, 624, 30522, 2**31, 2**32, 2**32 + 1, 2**53)]
    case["shuffle"] = list(range(20))
    r.shuffle(case["shuffle"])
    for _ in range(2000):  # three times past the end of the state
        r.random()
    case["last"] = r.random()
    cases.append(case)
json.dump(cases, __import__("sys").stdout, indent=None)
print()
