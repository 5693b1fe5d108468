#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_python_gpu.sh - the Python package on a GPU: results, errors, life, streams, graphs, caches of 8 bits. Skipped
# without a GPU and a Python that has torch.
. tests/support/tap.sh
. tests/python/python.sh
find_python cffi numpy torch
"$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' || {
	echo "1..0 # SKIP torch finds no GPU"
	exit 0
}
export ATTUNE_TEST_DEVICE=cuda
python_rows tests/python/test_gpu.py tests/python/test_run.py tests/python/test_errors.py tests/python/test_life.py \
	tests/python/test_readme.py
end_rows
