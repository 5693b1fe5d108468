"""t_sklearn.py FOLDER... - scikit-learn's trees on the matrices of `attune induce
--dump-matrices`, beside ours: at equal leaves ours must cost no more to train.

Costs are weighted means of 1e6 x log(slowdown), printed as slowdowns. A forbidden pick
costs what the library runs in its place. Two ways to teach a label tree: the winner of
each row, and the winner weighted by what missing it costs on average. Held out: the
folds by batch size that our own trees are judged by."""
import csv
import math
import os
import sys

import numpy
from sklearn.tree import DecisionTreeClassifier


def read(path):
    with open(path) as f:
        rows = list(csv.reader(f, delimiter="\t"))
    return rows[0], rows[1:]


def matrix(path):
    head, rows = read(path)
    first = head.index("cost0")
    fold = numpy.array([int(r[0]) for r in rows])
    weight = numpy.array([int(r[1]) for r in rows])
    x = numpy.array([[int(v) for v in r[3:first]] for r in rows], dtype=numpy.float64)
    cost = numpy.array([[int(r[2]) if v == "-" else int(v) for v in r[first:]] for r in rows])
    legal = numpy.array([[v != "-" for v in r[first:]] for r in rows])
    return fold, weight, x, cost, legal


def fit(x, cost, legal, weight, depth, by_cost):
    worth = numpy.where(legal, cost, cost.max() + 1)
    label = worth.argmin(axis=1)
    tree = DecisionTreeClassifier(max_depth=depth, min_samples_leaf=2, random_state=0)
    missed = cost.mean(axis=1) - cost.min(axis=1) + 1
    return tree.fit(x, label, sample_weight=weight * missed if by_cost else weight)


def paid(tree, x, cost, weight):
    pick = tree.predict(x).astype(int)
    return int((weight * cost[numpy.arange(len(x)), pick]).sum())


def held_out(fold, weight, x, cost, legal, depth, by_cost):
    total = 0
    for f in sorted(set(fold)):
        rest, own = fold != f, fold == f
        tree = fit(x[rest], cost[rest], legal[rest], weight[rest], depth, by_cost)
        total += paid(tree, x[own], cost[own], weight[own])
    return total


def main(folders):
    count, failed = 0, 0
    tables = [(f, d) for f in folders for d in ("prefill", "decode")]
    for folder, decision in tables:
        if not os.path.exists(f"{folder}/{decision}.tsv"):
            continue
        gpu = os.path.basename(folder)
        fold, weight, x, cost, legal = matrix(f"{folder}/{decision}.tsv")
        _, ours = read(f"{folder}/{decision}_ours.tsv")
        ours = {int(r[0]): (int(r[1]), int(r[2])) for r in ours}

        def slowdown(total):
            return math.exp(total / weight.sum() / 1e6)

        for depth in (4, 6):
            for by_cost in (False, True):
                tree = fit(x, cost, legal, weight, depth, by_cost)
                leaves = min(int(tree.get_n_leaves()), max(ours))
                theirs = paid(tree, x, cost, weight)
                count += 1
                good = ours[leaves][0] <= theirs
                failed += not good
                name = "cost-weighted winners" if by_cost else "winners"
                print(f"{'ok' if good else 'not ok'} {count} - {gpu} {decision}: ours costs no more "
                      f"than a tree of {name}, depth {depth}, {leaves} leaves")
                print(f"# trained {slowdown(ours[leaves][0]):.4f} ours, {slowdown(theirs):.4f}; "
                      f"held out {slowdown(ours[leaves][1]):.4f} ours, "
                      f"{slowdown(held_out(fold, weight, x, cost, legal, depth, by_cost)):.4f}")
    print(f"1..{count}" if count else "1..0 # SKIP no matrices")
    return failed > 0


sys.exit(main(sys.argv[1:]))
