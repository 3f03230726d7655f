"""The lengths of the sequences of harness bench step --fill, see lengths in harness/bench/batch.go."""
import math

BATCHES = 4  # through which a benchmark cycles


def lengths(seq, batch, fill, index):
    """The tokens without padding of the sequences of batch number index."""
    mean, spread = seq * fill, min(0.6, 1 / fill - 1)
    places = ((index * batch + i + 0.5) * (math.sqrt(5) - 1) / 2 % 1 for i in range(batch))
    return [max(1, int(mean * (1 + spread * (2 * u - 1)) + 0.5)) for u in places]
