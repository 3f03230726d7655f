"""The environment in which PyTorch is fast.

BLAS, OpenMP and malloc read variables when a process starts. The process therefore sets them and re-executes itself; its PID,
descriptors and standard streams stay the same. Variables that the user has set take precedence.

Debian's OpenBLAS 0.3.21 treats CPUs with AVX-512 that it does not know, from AMD and Intel, like CPUs with AVX2. glibc returns
large buffers to the system after every operator and faults them in again for the next. CPU seconds of a training step of
BERT-Tiny with 32 sequences of 128 tokens, measured on one thread of a Sapphire Rapids: 0.80 without any of this, 0.71 without
the core type, 0.55 with all of it.
"""

from __future__ import annotations

import os
import sys
from typing import Mapping

OPENBLAS = "/usr/lib/x86_64-linux-gnu/openblas-openmp"  # Debian's libopenblas0-openmp: shares its threads with PyTorch


def prepare() -> None:
    """Starts this process again in the right environment, unless it has it."""
    missing = {name: value for name, value in wanted().items() if name not in os.environ}
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    if os.path.isdir(OPENBLAS) and OPENBLAS not in folders:
        missing["LD_LIBRARY_PATH"] = ":".join([OPENBLAS, *filter(None, folders)])
    if missing and sys.platform == "linux":
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **missing})


def wanted() -> Mapping[str, str]:
    n = os.environ.get("GOMAXPROCS") or str(os.cpu_count() or 1)  # harness_plugin.threads, without the time to import it twice
    variables = {
        "OMP_NUM_THREADS": n,
        "OPENBLAS_NUM_THREADS": n,
        "MKL_NUM_THREADS": n,
        # Keep freed memory, in one arena for all threads, in huge pages.
        "MALLOC_ARENA_MAX": "1",
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": "100000000000",
        "MALLOC_TOP_PAD_": "268435456",
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
        # Deterministic results of cuBLAS; it is read when CUDA starts.
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    }
    if has_avx512():
        variables["OPENBLAS_CORETYPE"] = "SKYLAKEX"
    return variables


def has_avx512() -> bool:
    """Whether the CPU has what OpenBLAS's kernels for Skylake-X use."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
            text = f.read().split("\n\n")[0]
    except OSError:
        return False
    return {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= set(text.split())
