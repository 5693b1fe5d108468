"""f maps the names of kernels/features.def to integers. The functions return:

  prefill, decode  an index into CHOICES, or -1: the kernels' defaults
  overlap          for a batch with prefills and decodes:
                   -1: the prefills, then the decodes
                   -2: the choice of the prefills runs the whole batch in one launch
                   -3: both at the same time, on two streams
                   an index into CHOICES: a fused kernel runs the whole batch; any
                   other choice runs the prefills, the decodes run on a second stream
  early            the value of the kernel's tunable EARLY if the caller lets launches
                   begin early; -1: the choice's own value

A choice is (kernel, tunables, formula). One tunable may be None. resolve_segments
computes it by the formula, or fitted_segments if the formula has only axis and values.
leaf has more than the answer: if its "guarded" is a rule and not None, a batch there may
break that rule of the choice; take the defaults then.

A plug-in is (name, version, tunables). prefill_plugin, decode_plugin and mixed_plugin say
where these run: an index into PLUGINS, or -1: what the functions without plug-ins say. For
a batch with prefills and decodes ask mixed_plugin: an index runs it in one launch, and for
-2 its parts run in turn, each as its own function says.
"""

import json

_rules = json.loads(r'''
@RULES@''')

GPU = _rules["gpu"]
RULES = int(_rules["rules"], 16)
KERNELS = {name: int(text, 16) for name, text in _rules["kernels"].items()}
CHOICES = [(c["kernel"], c["tunables"], c["formula"]) for c in _rules["choices"]]
SEGMENTS = _rules["segments"]
PLUGINS = [(p["plugin"], p["version"],
            {name: int(value) for name, value in (word.split("=") for word in p["text"].split())})
           for p in _rules.get("plugins", [])]


def leaf(decision, f):
    """The leaf of "prefill", "decode", ...: action, scenarios, guarded, and with scenarios
    slowdown, p95 and remark."""
    node = _rules[decision]
    while "action" not in node:
        node = node["below" if f[node["feature"]] <= node["at_most"] else "above"]
    return node


def prefill(f):
    return leaf("prefill", f)["action"]


def decode(f):
    return leaf("decode", f)["action"]


def overlap(f):
    return leaf("overlap", f)["action"]


def early(f):
    return leaf("early", f)["action"]


def prefill_plugin(f):
    return leaf("prefill_plugin", f)["action"] if PLUGINS else -1


def decode_plugin(f):
    return leaf("decode_plugin", f)["action"] if PLUGINS else -1


def mixed_plugin(f):
    return leaf("mixed_plugin", f)["action"] if PLUGINS else -1


def resolve_segments(formula, blocks, mean, longest, units, resident=1, legal=None):
    """The value of formula["axis"] for a batch, all in integers.

    blocks    blocks of the launch at one segment
    mean      min(f["mean_seq"], f["keys_per_query"])
    longest   f["max_seq"]
    units     f["units"]: SMs, or threads
    resident  blocks that fit the shared memory of a unit; used if formula["slots"] is 0
    legal     the legal ones among formula["values"]; None: all are

    The value with the least estimate wins; of equal estimates the smallest value.
    """
    at_once = units * (formula["slots"] or resident)

    def estimate(v):
        waves = (blocks * v + at_once - 1) // at_once
        return (waves * (mean // v + formula["start"]) + (longest - mean) // v
                + (formula["launch"] if v > 1 else 0) + formula["merge"] * v)

    return min(formula["values"] if legal is None else legal,
               key=lambda v: (estimate(v), v))


# Follows kernels/segments.h line by line.
def segments_cost(costs, f, v):
    """The cost of v segments in fs. costs: a row of SEGMENTS."""
    def parts(n, of):
        return -(-n // of)

    tile, seqs, tokens = costs["tile"], f["num_seqs"], f["query_tokens"]
    packed = min(costs["heads"] or f["group"], f["group"])
    block_q = max(costs["rows"] // packed, 1)
    blocks, mean = seqs, f["keys_per_query"]
    if f["max_query"] > block_q:
        mean += block_q // 2
        blocks = max(seqs, parts(2 * tokens + seqs * (block_q - 1), 2 * block_q))
        if f["mean_query"] == f["max_query"]:
            blocks = seqs * parts(f["max_query"], block_q)
    blocks *= f["num_kv_heads"] * parts(f["group"], min(packed, costs["rows"]))
    longest = min(f["max_seq"], f["window"] + block_q)
    mean = parts(parts(min(mean, longest), tile) * tile, v)
    longest = parts(parts(longest, tile), v) * tile
    slots, n = f["units"] * costs["slots"], blocks * v
    if costs["clusters"] and v > 1:
        slots = max((slots - 3 * (v - 1) - 9 * (v & 1)) // v, 1) * v
    one, more = mean + costs["start"], max(longest - mean, 0)
    path = longest + costs["start"]
    if n > slots:
        idle = parts(n, slots) * slots - n
        lacks = idle * one * one // max(one + 4 * more, 1)
        tail = more if f["max_query"] <= 8 else more * slots // (4 * n)
        path = max((one * n + lacks) // slots + tail, path)
    cost = costs["path"] * min(path, 1 << 27)
    if v > 1:
        rows = min(tokens * f["num_query_heads"] * v, 1 << 27)
        cost += costs["split"] + costs["segments"] * v + costs["merge"] * rows
    return cost


def fitted_segments(id, f, legal):
    """The value among `legal` with the least cost for choice `id`; of equal costs the
    smallest. None: SEGMENTS has no row for the choice."""
    rows = sorted((row for row in SEGMENTS if row["id"] == id), key=lambda row: row["head_size"])
    row = next((r for r in rows if r["head_size"] >= f["head_size"]), rows[-1] if rows else None)
    return min(legal, key=lambda v: (segments_cost(row, f, v), v)) if row else None
