#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_torch.sh - torch's operators and FlashAttention's functions over the library, on the CPU. Skipped without
# a Python that has torch and numpy; ATTUNE_TEST_PYTHON names one. On a GPU: ATTUNE_TEST_DEVICE=cuda.
. tests/support/tap.sh
. tests/python/python.sh
find_python cffi numpy torch
export ATTUNE_THREADS=1 OMP_NUM_THREADS=1
python_rows tests/python/test_torch.py tests/python/test_flash.py tests/python/test_readme.py
end_rows
