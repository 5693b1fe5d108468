#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_vllm.sh - libattune as a backend of vLLM, driven as its model runner does. Skipped without a Python that has
# torch and vllm; ATTUNE_TEST_PYTHON names one. On a GPU: ATTUNE_TEST_DEVICE=cuda.
. tests/support/tap.sh
. tests/python/python.sh
find_python cffi numpy torch vllm
export ATTUNE_THREADS=1 OMP_NUM_THREADS=1
python_rows tests/python/test_vllm.py
end_rows
