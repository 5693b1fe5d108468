#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_transformers.sh - models of Transformers by libattune, on the CPU. Skipped without a Python that has torch
# and transformers; ATTUNE_TEST_PYTHON names one.
. tests/support/tap.sh
. tests/python/python.sh
find_python cffi numpy psutil torch transformers
export ATTUNE_THREADS=1 OMP_NUM_THREADS=1
python_rows tests/python/test_transformers.py
end_rows
