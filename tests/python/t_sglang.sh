#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_sglang.sh - libattune as a backend of SGLang, driven as its model runner does; on a CPU also its engine. Skipped
# without a Python that has torch and sglang; ATTUNE_TEST_PYTHON names one. On a GPU: ATTUNE_TEST_DEVICE=cuda.
. tests/support/tap.sh
. tests/python/python.sh
find_python cffi numpy torch sglang
export ATTUNE_THREADS=1 OMP_NUM_THREADS=1
python_rows tests/python/test_sglang.py tests/python/test_sglang_engine.py
end_rows
